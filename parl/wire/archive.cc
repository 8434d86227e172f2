#include "parl/wire/archive.h"

#include <algorithm>
#include <atomic>

namespace parl {

uint64_t wire::next_version_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

bool VersionBook::touch(uint64_t id) {
  const auto it = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.id == id; });
  if (it == entries_.end()) return false;
  std::rotate(it, it + 1, entries_.end());
  return true;
}

void VersionBook::add(Entry entry) {
  if (entries_.size() >= kKept) entries_.erase(entries_.begin());
  entries_.push_back(std::move(entry));
}

VersionSender::Place VersionBook::place(uint64_t id, const std::shared_ptr<const void>&,
                                        const std::function<void(Writer&)>&) {
  if (touch(id)) {
    ++skipped_;
    return {id, true};
  }
  add({id, nullptr, nullptr});
  return {id, false};
}

void VersionBook::received(uint64_t id, const void* type_tag, std::shared_ptr<const void> value) {
  if (touch(id)) entries_.pop_back();  // the sender had forgotten
  add({id, type_tag, std::move(value)});
}

std::shared_ptr<const void> VersionBook::find(uint64_t id, const void* type_tag, const Load&) {
  if (!touch(id) || entries_.back().type_tag != type_tag) return nullptr;
  return entries_.back().value;
}

void Writer::append(const Writer& other) {
  head_.insert(head_.end(), other.head_.begin(), other.head_.end());
  for (Attachment attachment : other.attachments_) {
    attachment.is_shared = true;
    attachments_.push_back(attachment);
  }
  kept_.insert(kept_.end(), other.kept_.begin(), other.kept_.end());
}

void Reader::expect_payload(size_t bytes) const {
  if (bytes <= kInlineLimit) return require(bytes);
  if (next_attachment_ >= attachments_.size()) fail("an attachment of {} bytes is missing", bytes);
  const ReceivedAttachment& next = attachments_[next_attachment_];
  if (next.bytes != bytes) fail("an attachment has {} bytes instead of {}", next.bytes, bytes);
}

ArrayBlock Reader::take_attachment(size_t bytes) {
  expect_payload(bytes);
  return std::move(attachments_[next_attachment_++].block);
}

void Reader::payload(void* destination, size_t bytes) {
  if (bytes <= kInlineLimit) return raw(destination, bytes);
  const ArrayBlock block = take_attachment(bytes);
  std::memcpy(destination, block.data(), bytes);
}

ArrayBlock Reader::take_payload(size_t bytes) {
  if (bytes > kInlineLimit) return take_attachment(bytes);
  expect_payload(bytes);
  ArrayBlock block = ArrayBlock::allocate(bytes);
  raw(block.data(), bytes);
  return block;
}

size_t Reader::count(size_t min_bytes) {
  const auto n = number<uint64_t>();
  if (n > remaining() / (min_bytes ? min_bytes : 1)) fail("{} items cannot fit in {} bytes", n, remaining());
  return n;
}

size_t Reader::payload_count(size_t item_bytes) {
  const auto n = number<uint64_t>();
  if (n > (uint64_t{1} << 62) / item_bytes) fail("{} items are more than any memory", n);
  expect_payload(n * item_bytes);
  return n;
}

std::string Reader::text() {
  const size_t n = payload_count(1);
  std::string out;
  if (n > kInlineLimit) {
    const ArrayBlock block = take_attachment(n);
    out.assign(reinterpret_cast<const char*>(block.data()), n);
  } else {
    out.assign(reinterpret_cast<const char*>(head_.data() + at_), n);
    at_ += n;
  }
  return out;
}

void Reader::finish() const {
  if (remaining()) fail("{} bytes too many", remaining());
  if (next_attachment_ != attachments_.size()) fail("{} attachments too many", attachments_.size() - next_attachment_);
}

}  // namespace parl
