#include "parl/remote/fuzz/fuzz.h"

namespace parl::fuzz {
namespace {

class ExactOwner final : public ArrayOwner {
 public:
  void release(std::byte* data, size_t) noexcept override { std::free(data); }
};

}  // namespace

ArrayBlock exact_block(size_t bytes, uint8_t fill) {
  if (bytes == 0) return {};
  static const auto owner = std::make_shared<ExactOwner>();
  auto* data = static_cast<std::byte*>(std::malloc(bytes));
  require(data != nullptr, "there is memory for an attachment");
  std::memset(data, fill, bytes);
  return ArrayBlock(data, bytes, owner);
}

std::vector<ReceivedAttachment> take_attachments(Source& source) {
  std::vector<ReceivedAttachment> attachments;
  for (int count = source.byte() % 4; count > 0; --count) {
    const auto size = source.number<uint16_t>();
    const size_t bytes = size < 0xf000 ? kInlineLimit + size : (size & 0xfff) * size_t{256};
    attachments.push_back({exact_block(bytes, source.byte()), bytes});
  }
  return attachments;
}

}  // namespace parl::fuzz
