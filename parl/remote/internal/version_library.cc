#include "parl/remote/internal/version_library.h"

#include <algorithm>

namespace parl::internal {

VersionSender::Place VersionLibrary::Borrower::place(uint64_t id, const std::shared_ptr<const void>& owner,
                                                     const std::function<void(Writer&)>& save) {
  loans_.reserve(loans_.size() + 1);
  bool was_there = false;
  Entry& entry = library_->lend(id, owner, save, was_there);
  loans_.emplace_back(library_, &entry);
  skipped_ += was_there ? 1 : 0;
  return {entry.key, true};
}

VersionLibrary::Entry& VersionLibrary::lend(uint64_t id, const std::shared_ptr<const void>& owner,
                                            const std::function<void(Writer&)>& save, bool& was_there) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto it =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.id == id && !e.is_bad; });
    if (it == entries_.end()) break;
    if (it->is_sent) {
      was_there = true;
      ++it->loans;
      entries_.splice(entries_.end(), entries_, it);
      return *it;
    }
    encoded_.wait(lock);  // another caller is at it, and may fail
  }
  Entry& entry = entries_.emplace_back();
  entry.id = id;
  entry.owner = owner;
  entry.loans = 1;
  lock.unlock();  // a large value takes its time
  encode(entry, owner, save);
  return entry;
}

void VersionLibrary::encode(Entry& entry, const std::shared_ptr<const void>& owner,
                            const std::function<void(Writer&)>& save) {
  const auto forget = [&] {
    std::lock_guard lock(mutex_);
    entries_.remove_if([&](const Entry& e) { return &e == &entry; });
    encoded_.notify_all();
  };
  try {
    Writer writer;
    save(writer);
    std::lock_guard lock(mutex_);
    entry.key = ++last_key_;  // in the order of sending: a worker knows what has been forgotten from what is to come
    if (road_) road_->send_value(entry.key, std::move(writer), owner);
    entry.is_sent = true;
    encoded_.notify_all();
    drop_idle();
  } catch (...) {
    forget();
    throw;
  }
}

void VersionLibrary::take_back(Entry& entry) noexcept {
  try {
    std::lock_guard lock(mutex_);
    --entry.loans;
    drop_idle();
  } catch (...) {  // no memory to say that it may be forgotten: it is kept
  }
}

void VersionLibrary::spoil(Entry& entry) {
  std::lock_guard lock(mutex_);
  entry.is_bad = true;
}

void VersionLibrary::tidy() {
  std::lock_guard lock(mutex_);
  drop_idle();
}

void VersionLibrary::close() {
  std::lock_guard lock(mutex_);
  road_ = nullptr;
}

size_t VersionLibrary::held() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

// Under mutex_.
void VersionLibrary::drop_idle() {
  const auto is_idle = [](const Entry& e) { return e.loans == 0 && e.is_sent; };
  auto surplus = std::count_if(entries_.begin(), entries_.end(), is_idle) - static_cast<ptrdiff_t>(kKept);
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (!is_idle(*it) || !(it->is_bad || it->owner.expired() || surplus > 0)) {
      ++it;
      continue;
    }
    if (road_) road_->send_forget(it->key);
    it = entries_.erase(it);
    --surplus;
  }
}

}  // namespace parl::internal
