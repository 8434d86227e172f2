#include "parl/train/published_weights.h"

#include <algorithm>

#include "parl/core/check.h"

namespace parl {

void PublishedWeights::publish(int64_t version, Weights weights) {
  {
    std::lock_guard lock(mutex_);
    versions_.emplace_back(version, std::move(weights));
    while (versions_.size() > (deterministic_ ? 2u : 1u)) versions_.pop_front();
  }
  published_.notify_all();
}

std::optional<Versioned<Weights>> PublishedWeights::wait_for(int64_t sequence, int64_t last_version) {
  std::unique_lock lock(mutex_);
  const int64_t wanted = std::max(first_version_, on_policy_ ? sequence : sequence - 1);
  published_.wait(lock, [&] {
    if (stopping_) return true;
    if (versions_.empty()) return false;
    if (deterministic_) return versions_.back().version() >= wanted;
    return !on_policy_ || versions_.back().version() > last_version;
  });
  if (stopping_) return std::nullopt;
  if (!deterministic_) return versions_.back();
  for (const auto& v : versions_) {
    if (v.version() == wanted) return v;
  }
  raise("rollout {} needs weight version {}, which is gone", sequence, wanted);
}

Versioned<Weights> PublishedWeights::newest() const {
  std::lock_guard lock(mutex_);
  PARL_CHECK(!versions_.empty(), "no weights were published yet");
  return versions_.back();
}

void PublishedWeights::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  published_.notify_all();
}

bool PublishedWeights::stopped() const {
  std::lock_guard lock(mutex_);
  return stopping_;
}

}  // namespace parl
