// Writer and Reader: the byte level of the wire. Little-endian, fixed widths, no alignment.
//
// A message is a head (small bytes) and attachments: contiguous payloads above kInlineLimit, which are never copied
// into the head. The Writer only points at them, so what is saved must live until the message is sent (keep() prolongs
// it); the transport gathers them on send and receives each into one block, which an Array then simply owns. The Reader
// trusts nothing: every size is checked against what is really there before memory is taken. Thread rule: one owner.
// Throws WireError for data that does not fit, std::bad_alloc without memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "parl/core/check.h"
#include "parl/wire/array.h"

namespace parl {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian; this machine is not");

// What came over the wire (or should go over it) is not what the types say.
class WireError : public Error {
 public:
  using Error::Error;
};

// Payloads above this many bytes travel as attachments; both sides derive it from the size alone.
inline constexpr size_t kInlineLimit = 64 * 1024;

// A payload beside the head. `array` is set when the bytes are a parl::Array's (its block may live in shared memory).
struct Attachment {
  const std::byte* data = nullptr;
  size_t bytes = 0;
  const Array* array = nullptr;
  bool is_shared = false;  // others read these bytes too: a transport must not move the array's memory away
};

class Reader;
class Writer;

// Versioned values (versioned.h) on their way to one peer: what a Writer asks. Called by one thread at a time.
class VersionSender {
 public:
  struct Place {
    uint64_t key = 0;
    bool is_there = false;  // else the value follows in the message
  };
  virtual ~VersionSender() = default;
  // The message refers to the value of this id. `save` writes it, pointing at what `owner` keeps.
  virtual Place place(uint64_t id, const std::shared_ptr<const void>& owner,
                      const std::function<void(Writer&)>& save) = 0;
  uint64_t skipped() const { return skipped_; }  // values that did not have to travel

 protected:
  uint64_t skipped_ = 0;
};

// The other end: what a Reader asks. Called by one thread at a time.
class VersionReceiver {
 public:
  using Load = std::function<std::shared_ptr<const void>(Reader&)>;
  virtual ~VersionReceiver() = default;
  // A value that came in the message.
  virtual void received(uint64_t key, const void* type_tag, std::shared_ptr<const void> value) = 0;
  // The value that the peer says is here; null: it is not. May wait for it; `load` reads it when it came by itself.
  virtual std::shared_ptr<const void> find(uint64_t key, const void* type_tag, const Load& load) = 0;
};

// What one direction of one connection remembers of Versioned values: the sender, which ids the peer holds; the
// receiver, the values. Both keep the last kKept and drop the eldest by the same rule, so they agree as long
// as every message is encoded and decoded in the order of sending. After a message that was not sent or did not decode,
// the sender forgets all (clear) and values travel again.
class VersionBook final : public VersionSender, public VersionReceiver {
 public:
  static constexpr size_t kKept = 8;
  Place place(uint64_t id, const std::shared_ptr<const void>& owner, const std::function<void(Writer&)>& save) override;
  void received(uint64_t id, const void* type_tag, std::shared_ptr<const void> value) override;
  std::shared_ptr<const void> find(uint64_t id, const void* type_tag, const Load& load) override;
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    uint64_t id;
    const void* type_tag;
    std::shared_ptr<const void> value;
  };
  bool touch(uint64_t id);
  void add(Entry entry);
  std::vector<Entry> entries_;  // the latest last
};

namespace wire {
uint64_t next_version_id();
}

class Writer {
 public:
  explicit Writer(VersionSender* versions = nullptr) : versions_(versions) {}
  VersionSender* versions() const { return versions_; }  // null: every value travels in full
  void note_versioned() { has_versioned_ = true; }
  bool has_versioned() const { return has_versioned_; }  // a Versioned was saved: the bytes depend on the peer
  template <typename T>
  requires std::is_arithmetic_v<T>
  void number(T value) {
    const size_t at = head_.size();
    head_.resize(at + sizeof(T));
    std::memcpy(head_.data() + at, &value, sizeof(T));
  }
  void raw(const void* data, size_t bytes) {
    const auto* first = static_cast<const std::byte*>(data);
    head_.insert(head_.end(), first, first + bytes);
  }
  // `bytes` of payload whose size the reader will know: inline, or an attachment when large.
  void payload(const void* data, size_t bytes, const Array* array = nullptr) {
    if (bytes <= kInlineLimit) {
      raw(data, bytes);
    } else {
      attachments_.push_back({static_cast<const std::byte*>(data), bytes, array, is_sharing_});
    }
  }
  void text(std::string_view s) {
    number<uint64_t>(s.size());
    payload(s.data(), s.size());
  }
  // While set, what is saved belongs to others too (Attachment::is_shared). Returns what was set before.
  bool set_sharing(bool is_sharing) { return std::exchange(is_sharing_, is_sharing); }
  // Holds `value` as long as this writer's content: for attachments that point into it.
  void keep(std::shared_ptr<const void> value) { kept_.push_back(std::move(value)); }

  std::span<const std::byte> head() const { return head_; }
  const std::vector<Attachment>& attachments() const { return attachments_; }
  size_t total_bytes() const {
    size_t sum = head_.size();
    for (const Attachment& a : attachments_) sum += a.bytes;
    return sum;
  }
  // Adds what another writer holds, shared: a message encoded once for many.
  void append(const Writer& other);
  void clear() {
    head_.clear();
    attachments_.clear();
    kept_.clear();
    is_sharing_ = false;
  }

 private:
  VersionSender* versions_;
  bool has_versioned_ = false, is_sharing_ = false;
  std::vector<std::byte> head_;
  std::vector<Attachment> attachments_;
  std::vector<std::shared_ptr<const void>> kept_;
};

// A received payload: the block holds `bytes` bytes.
struct ReceivedAttachment {
  ArrayBlock block;
  size_t bytes = 0;
};

class Reader {
 public:
  // Both spans must outlive the reader; blocks are moved out of `attachments`.
  explicit Reader(std::span<const std::byte> head, std::span<ReceivedAttachment> attachments = {},
                  VersionReceiver* versions = nullptr)
      : head_(head), attachments_(attachments), versions_(versions) {}
  VersionReceiver* versions() const { return versions_; }

  template <typename T>
  requires std::is_arithmetic_v<T> T number() {
    require(sizeof(T));
    if constexpr (std::is_same_v<T, bool>) {
      const auto byte = std::to_integer<uint8_t>(head_[at_++]);
      if (byte > 1) fail("a bool is {}", byte);
      return byte != 0;
    } else {
      T value;
      std::memcpy(&value, head_.data() + at_, sizeof(T));
      at_ += sizeof(T);
      return value;
    }
  }
  void raw(void* destination, size_t bytes) {
    require(bytes);
    if (bytes) std::memcpy(destination, head_.data() + at_, bytes);
    at_ += bytes;
  }
  // Checks that a payload of this size is there; call before taking memory for it.
  void expect_payload(size_t bytes) const;
  // Copies the next payload.
  void payload(void* destination, size_t bytes);
  // The next payload as a block of its own: an attachment is handed over, an inline one is copied.
  ArrayBlock take_payload(size_t bytes);
  // The next payload, an attachment, where it lies; the block then owns it.
  ArrayBlock take_attachment(size_t bytes);
  // A count of items of at least `min_bytes` each; what cannot be there is refused.
  size_t count(size_t min_bytes);
  // A count of items whose bytes follow as one payload.
  size_t payload_count(size_t item_bytes);
  std::string text();

  size_t remaining() const { return head_.size() - at_; }
  // Throws unless everything was read.
  void finish() const;

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw WireError("malformed message: " + fmt::format(format, std::forward<Args>(args)...));
  }

  // Guards the stack against deeply nested hostile data (lists of unique_ptr).
  class Nesting {
   public:
    explicit Nesting(Reader& reader) : reader_(reader) {
      if (++reader_.depth_ > kMaxDepth) reader_.fail("nested deeper than {}", kMaxDepth);
    }
    ~Nesting() { --reader_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Reader& reader_;
  };

 private:
  static constexpr int kMaxDepth = 1000;
  void require(size_t bytes) const {
    if (bytes > remaining()) fail("{} bytes expected, {} left", bytes, remaining());
  }

  std::span<const std::byte> head_;
  std::span<ReceivedAttachment> attachments_;
  VersionReceiver* versions_;
  size_t at_ = 0, next_attachment_ = 0;
  int depth_ = 0;
};

}  // namespace parl
