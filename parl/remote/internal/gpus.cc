#include "parl/remote/internal/gpus.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <set>
#include <string_view>
#include <system_error>

#include "parl/core/check.h"

namespace parl::internal {
namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    std::string part = text.substr(at, comma - at);
    std::erase(part, ' ');
    parts.push_back(std::move(part));
    at = comma + 1;
  }
  return parts;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

Gpus numbered(const std::vector<int>& ids) {
  Gpus gpus;
  gpus.ids = ids;
  for (const int id : ids) gpus.names.push_back(std::to_string(id));
  gpus.devices.resize(ids.size());
  std::iota(gpus.devices.begin(), gpus.devices.end(), 0);
  return gpus;
}

// As CUDA reads it: what follows an entry that is not understood does not count, and -1 is none.
Gpus from_environment(const std::string& text) {
  Gpus gpus;
  std::vector<int> ids;
  for (const std::string& name : split(text)) {
    if (name.empty() || name[0] == '-') break;
    if (const auto id = number(name)) ids.push_back(*id);
    gpus.names.push_back(name);
  }
  if (ids.size() == gpus.names.size()) return numbered(ids);
  gpus.ids.resize(gpus.names.size());
  std::iota(gpus.ids.begin(), gpus.ids.end(), 0);
  gpus.devices = gpus.ids;
  return gpus;
}

Gpus from_machine() {
  constexpr std::string_view kPrefix = "nvidia";
  std::vector<int> ids;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator("/dev", error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.substr(0, kPrefix.size()) != kPrefix) continue;
    if (const auto id = number(std::string_view(name).substr(kPrefix.size()))) ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  return numbered(ids);
}

}  // namespace

std::string Gpus::visible(const std::vector<int>& some) const {
  std::vector<std::string> chosen;
  for (const int id : some) {
    const auto at = std::find(ids.begin(), ids.end(), id);
    PARL_CHECK(at != ids.end(), "there is no GPU {} here", id);
    chosen.push_back(names[static_cast<size_t>(at - ids.begin())]);
  }
  return fmt::format("{}", fmt::join(chosen, ","));
}

std::vector<int> Gpus::devices_of(const std::vector<int>& some) const {
  std::vector<int> result;
  for (const int id : some) {
    const auto at = std::find(ids.begin(), ids.end(), id);
    PARL_CHECK(at != ids.end(), "there is no GPU {} here", id);
    result.push_back(devices[static_cast<size_t>(at - ids.begin())]);
  }
  return result;
}

Gpus find_gpus(const std::string& text) {
  const char* environment = std::getenv(kVisible);
  const Gpus all = environment ? from_environment(environment) : from_machine();
  if (text.empty() || text == "auto") return all;
  if (text == "none") return {};
  std::vector<int> ids;
  for (const std::string& part : split(text)) {
    const auto id = number(part);
    PARL_CHECK(id, "GPUs are given as numbers (0,1), as auto or as none, not as '{}'", text);
    PARL_CHECK(std::find(ids.begin(), ids.end(), *id) == ids.end(), "GPU {} is given twice: {}", *id, text);
    ids.push_back(*id);
  }
  if (!environment) {  // they are taken at their word; this process sees them all, by their own numbers
    Gpus gpus = numbered(ids);
    gpus.devices = ids;
    return gpus;
  }
  Gpus gpus;
  for (const int id : ids) {
    const auto at = std::find(all.ids.begin(), all.ids.end(), id);
    PARL_CHECK(at != all.ids.end(), "GPU {} is not among those of {}={}", id, kVisible, environment);
    const auto i = static_cast<size_t>(at - all.ids.begin());
    gpus.ids.push_back(id);
    gpus.names.push_back(all.names[i]);
    gpus.devices.push_back(all.devices[i]);
  }
  return gpus;
}

void show_only(const Gpus& gpus) { ::setenv(kVisible, gpus.visible(gpus.ids).c_str(), 1); }

// ---- GpuWish ----

GpuWish::GpuWish(const Place& place) : ids(place.gpus), count(place.gpu_count), is_shared(place.share_gpus) {
  PARL_CHECK(count >= 0, "Place::gpu_count is {}", count);
  PARL_CHECK(ids.empty() || count == 0 || count == static_cast<int>(ids.size()),
             "Place::gpus names {} and gpu_count asks for {}: give one of them", ids.size(), count);
  PARL_CHECK(std::set<int>(ids.begin(), ids.end()).size() == ids.size(), "Place::gpus names a GPU twice: {}",
             fmt::join(ids, ", "));
}

bool GpuWish::fits(const std::vector<int>& offered) const {
  if (ids.empty()) return static_cast<int>(offered.size()) >= count;
  return std::all_of(ids.begin(), ids.end(),
                     [&](int id) { return std::find(offered.begin(), offered.end(), id) != offered.end(); });
}

std::string GpuWish::text() const {
  if (!ids.empty()) return fmt::format("GPU{} {}", ids.size() == 1 ? "" : "s", fmt::join(ids, ", "));
  return fmt::format("{} GPU{}", count, count == 1 ? "" : "s");
}

// ---- GpuBook ----

bool GpuBook::is_free(const Key& key, bool is_shared) const {
  const auto it = used_.find(key);
  return it == used_.end() || (is_shared && !it->second.is_exclusive);
}

// Empty: not now. Of those that may be shared, the ones with the fewest users.
std::vector<int> GpuBook::choose(const std::string& host, const std::vector<int>& offered, const GpuWish& wish) const {
  if (!wish.fits(offered)) return {};
  std::vector<int> free;
  for (const int id : wish.ids.empty() ? offered : wish.ids)
    if (is_free({host, id}, wish.is_shared)) free.push_back(id);
  const size_t wanted = wish.ids.empty() ? static_cast<size_t>(wish.count) : wish.ids.size();
  if (free.size() < wanted) return {};
  const auto sharers = [&](int id) {
    const auto it = used_.find({host, id});
    return it == used_.end() ? 0 : it->second.sharers;
  };
  if (wish.ids.empty())
    std::stable_sort(free.begin(), free.end(), [&](int a, int b) { return sharers(a) < sharers(b); });
  free.resize(wanted);
  return free;
}

std::optional<GpuBook::Lease> GpuBook::try_take_locked(const std::string& host, const std::vector<int>& offered,
                                                       const GpuWish& wish) {
  if (wish.is_empty()) return Lease{};
  const std::vector<int> ids = choose(host, offered, wish);
  if (ids.empty()) return std::nullopt;
  for (const int id : ids) {
    Use& use = used_[{host, id}];
    ++use.sharers;
    use.is_exclusive = !wish.is_shared;
  }
  const auto self = shared_from_this();
  return Lease{ids, std::shared_ptr<void>(this, [self, host, ids](void*) { self->give_back(host, ids); })};
}

std::optional<GpuBook::Lease> GpuBook::try_take(const std::string& host, const std::vector<int>& offered,
                                                const GpuWish& wish) {
  std::lock_guard lock(mutex_);
  return try_take_locked(host, offered, wish);
}

GpuBook::Lease GpuBook::take(const std::string& host, const std::vector<int>& offered, const GpuWish& wish,
                             TimePoint deadline) {
  std::unique_lock lock(mutex_);
  if (!wish.fits(offered))
    throw_remote(RemoteErrorKind::kRefused,
                 fmt::format("{} asked for, and this program has {}. --parl-gpus 0,1 (or CUDA_VISIBLE_DEVICES) says "
                             "which it may hand out",
                             wish.text(), describe_locked(host, offered)));
  for (;;) {
    if (closed_) throw_remote(RemoteErrorKind::kClosed, "the manager has ended; no object can be created");
    if (auto lease = try_take_locked(host, offered, wish)) return std::move(*lease);
    if (deadline == kForever) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
      if (auto lease = try_take_locked(host, offered, wish)) return std::move(*lease);
      throw_remote(RemoteErrorKind::kRefused,
                   fmt::format("{} asked for, and this program has {}: none became free in time. Drop a handle, or let "
                               "objects share them (Place::share_gpus)",
                               wish.text(), describe_locked(host, offered)));
    }
  }
}

void GpuBook::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

std::string GpuBook::describe(const std::string& host, const std::vector<int>& offered) {
  std::lock_guard lock(mutex_);
  return describe_locked(host, offered);
}

std::string GpuBook::describe_locked(const std::string& host, const std::vector<int>& offered) const {
  if (offered.empty()) return "no GPU";
  std::vector<int> busy;
  for (const int id : offered)
    if (used_.count({host, id})) busy.push_back(id);
  std::string text = fmt::format("GPU{} {}", offered.size() == 1 ? "" : "s", fmt::join(offered, ", "));
  if (busy.empty()) return text;
  return text + fmt::format(", of which {} {} in use", fmt::join(busy, ", "), busy.size() == 1 ? "is" : "are");
}

void GpuBook::give_back(const std::string& host, const std::vector<int>& ids) noexcept {
  {
    std::lock_guard lock(mutex_);
    for (const int id : ids) {
      const auto it = used_.find({host, id});
      if (--it->second.sharers == 0) used_.erase(it);
    }
  }
  changed_.notify_all();
}

}  // namespace parl::internal
