// A value of the wire (parl/wire/wire.h) as one string of bytes, for files and for other learners.
// Layout: head (length, bytes), attachments (count, then length and bytes of each); lengths are u64.
// Pure functions. from_byte_string throws CutShort that names `where` when the bytes are cut short.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "parl/core/check.h"
#include "parl/wire/wire.h"

namespace parl {

class CutShort : public Error {
 public:
  using Error::Error;
};

// Walks over bytes that carry their lengths.
class ByteCursor {
 public:
  ByteCursor(std::string_view bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}
  std::string_view take(uint64_t size);
  uint64_t number();
  std::vector<ReceivedAttachment> attachments();

 private:
  std::string_view bytes_;
  std::string where_;
};

void append_u64(std::string& out, uint64_t value);
void append_bytes(std::string& out, const Writer& writer);

template <typename T>
std::string to_byte_string(const T& value) {
  Writer writer;
  wire::save(writer, value);
  std::string out;
  append_bytes(out, writer);
  return out;
}

template <typename T>
T from_byte_string(ByteCursor cursor) {
  const std::string_view head = cursor.take(cursor.number());
  std::vector<ReceivedAttachment> attachments = cursor.attachments();
  Reader reader(std::as_bytes(std::span(head.data(), head.size())), attachments);
  T value = wire::load<T>(reader);
  reader.finish();
  return value;
}
template <typename T>
T from_byte_string(std::string_view bytes, const std::string& where) {
  return from_byte_string<T>(ByteCursor(bytes, where));
}

}  // namespace parl
