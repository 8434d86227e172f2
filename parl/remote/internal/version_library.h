// Versioned values for all objects of one worker's connection: each travels once, on a stream of its own, and messages
// name it. So the worker holds one copy for all its objects.
//
// The learner decides what is held. A value is lent to each message that names it, until that message is answered or
// its object is gone; then it is one of the last kKept, as long as anybody here still has it, and after that the worker
// is told to forget it. A message may overtake the value that it names; the worker waits for it (version_shelf.h). Keys
// rise in the order of sending.
// Thread rule: any thread; a Borrower belongs to whoever encodes, a Loan to one thread at a time.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "parl/wire/archive.h"

namespace parl::internal {

class VersionLibrary : public std::enable_shared_from_this<VersionLibrary> {
 public:
  static constexpr size_t kKept = 8;  // that no message refers to at present

  // The way to the worker. Thread rule: any thread; must not block.
  class Road {
   public:
    virtual ~Road() = default;
    // `writer` holds the value; it points at what `owner` keeps.
    virtual void send_value(uint64_t key, Writer writer, std::shared_ptr<const void> owner) = 0;
    virtual void send_forget(uint64_t key) = 0;
  };

  // `road` is not used any more after close().
  explicit VersionLibrary(Road& road) : road_(&road) {}
  void close();

 private:
  struct Entry {
    uint64_t id = 0, key = 0;
    std::weak_ptr<const void> owner;
    int loans = 0;
    bool is_sent = false;  // else somebody is encoding it
    bool is_bad = false;   // the worker could not read it: it is not lent again
  };

 public:
  // Its end gives the value back. Move-only.
  class Loan {
   public:
    Loan(std::shared_ptr<VersionLibrary> library, Entry* entry) : library_(std::move(library)), entry_(entry) {}
    Loan(Loan&&) noexcept = default;
    Loan& operator=(Loan&&) = delete;
    ~Loan() {
      if (library_) library_->take_back(*entry_);
    }
    // The worker says that it could not read the message.
    void spoil() { library_->spoil(*entry_); }

   private:
    std::shared_ptr<VersionLibrary> library_;
    Entry* entry_;
  };
  using Loans = std::vector<Loan>;

  // For one message after the other.
  class Borrower final : public VersionSender {
   public:
    explicit Borrower(std::shared_ptr<VersionLibrary> library) : library_(std::move(library)) {}
    Place place(uint64_t id, const std::shared_ptr<const void>& owner,
                const std::function<void(Writer&)>& save) override;
    // What the message refers to.
    Loans take_loans() { return std::exchange(loans_, {}); }

   private:
    const std::shared_ptr<VersionLibrary> library_;
    Loans loans_;
  };

  // Forgets what nobody here has any more.
  void tidy();
  size_t held() const;  // by the worker

 private:
  Entry& lend(uint64_t id, const std::shared_ptr<const void>& owner, const std::function<void(Writer&)>& save,
              bool& was_there);
  void encode(Entry& entry, const std::shared_ptr<const void>& owner, const std::function<void(Writer&)>& save);
  void take_back(Entry& entry) noexcept;
  void spoil(Entry& entry);
  void drop_idle();

  mutable std::mutex mutex_;
  std::condition_variable encoded_;
  Road* road_;
  std::list<Entry> entries_;  // the one that was lent last at the end
  uint64_t last_key_ = 0;
};

}  // namespace parl::internal
