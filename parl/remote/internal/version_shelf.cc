#include "parl/remote/internal/version_shelf.h"

namespace parl::internal {

void VersionShelf::put(uint64_t key, Frame frame) {
  auto entry = std::make_shared<Entry>();
  entry->frame = std::move(frame);
  std::lock_guard lock(mutex_);
  if (entries_.size() >= kMost) throw WireError(fmt::format("more than {} versioned values are kept here", kMost));
  if (key <= last_key_) throw WireError("a versioned value came twice");
  entries_.emplace(key, std::move(entry));
  last_key_ = key;
  changed_.notify_all();
}

std::shared_ptr<const void> VersionShelf::forget(uint64_t key) {
  std::lock_guard lock(mutex_);
  const auto it = entries_.find(key);
  if (it == entries_.end()) return nullptr;
  std::shared_ptr<const void> dropped = std::move(it->second);
  entries_.erase(it);
  return dropped;
}

void VersionShelf::close() {
  std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

void VersionShelf::received(uint64_t, const void*, std::shared_ptr<const void>) {}  // what came in a message is its own

std::shared_ptr<const void> VersionShelf::find(uint64_t key, const void* type_tag, const Load& load) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_closed_ || key <= last_key_; });
  if (is_closed_) throw WireError("the connection ended before a versioned value was here");
  const auto it = entries_.find(key);
  if (it == entries_.end()) return nullptr;
  const std::shared_ptr<Entry> entry = it->second;
  changed_.wait(lock, [&] { return entry->is_raw || entry->is_bad || entry->value; });
  if (entry->is_raw) {
    entry->is_raw = false;
    lock.unlock();
    std::shared_ptr<const void> value;
    try {
      if (entry->frame.out_of_memory) throw WireError("no memory for a versioned value");
      Reader reader = entry->frame.reader();
      value = load(reader);
      reader.finish();
    } catch (...) {
      lock.lock();
      entry->is_bad = true;
      entry->frame = Frame();
      changed_.notify_all();
      throw;
    }
    entry->frame = Frame();  // nobody else looks at it now
    lock.lock();
    entry->type_tag = type_tag;
    entry->value = std::move(value);
    changed_.notify_all();
  }
  if (entry->is_bad) throw WireError("a versioned value could not be read when it was first needed");
  return entry->type_tag == type_tag ? entry->value : nullptr;
}

size_t VersionShelf::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace parl::internal
