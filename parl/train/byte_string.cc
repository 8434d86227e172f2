#include "parl/train/byte_string.h"

#include <fmt/format.h>

#include <cstring>

namespace parl {

std::string_view ByteCursor::take(uint64_t size) {
  if (size > bytes_.size()) throw CutShort(fmt::format("{} is cut short", where_));
  const auto out = bytes_.substr(0, size);
  bytes_.remove_prefix(size);
  return out;
}

uint64_t ByteCursor::number() {
  uint64_t value = 0;
  std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
  return value;
}

std::vector<ReceivedAttachment> ByteCursor::attachments() {
  std::vector<ReceivedAttachment> out;
  for (uint64_t n = number(); n > 0; --n) {
    const std::string_view part = take(number());
    ArrayBlock block = ArrayBlock::from_malloc(part.size());
    std::memcpy(block.data(), part.data(), part.size());
    out.push_back({std::move(block), part.size()});
  }
  return out;
}

void append_u64(std::string& out, uint64_t value) { out.append(reinterpret_cast<const char*>(&value), sizeof(value)); }

void append_bytes(std::string& out, const Writer& writer) {
  append_u64(out, writer.head().size());
  out.append(reinterpret_cast<const char*>(writer.head().data()), writer.head().size());
  append_u64(out, writer.attachments().size());
  for (const Attachment& a : writer.attachments()) {
    append_u64(out, a.bytes);
    out.append(reinterpret_cast<const char*>(a.data), a.bytes);
  }
}

}  // namespace parl
