// Replacements: how many failed remote workers of a run may be replaced, and what the log says of them.
// Thread rule: any thread.
#pragma once

#include <atomic>
#include <string>

#include "parl/core/check.h"
#include "parl/core/log.h"

namespace parl {

class Replacements {
 public:
  explicit Replacements(int64_t most) : most_(most) {}

  // Call it before a new one is made in the place of `who`. Throws when as many as are allowed have been made.
  void failed(const std::string& who, const std::exception& error) {
    const int64_t count = ++count_;
    log().error("{} failed: {}", who, error.what());
    if (count > most_) {
      raise("{} failed and {} have been replaced already (--max-replacements): {}", who, most_, error.what());
    }
  }
  // Call it when the new one is there. `consequence`: added to the line.
  void replaced(const std::string& who, const std::string& consequence = "") const {
    log().warn("{} replaced ({} of at most {} replacements){}", who, count(), most_, consequence);
  }
  int64_t count() const { return count_; }

 private:
  const int64_t most_;
  std::atomic<int64_t> count_{0};
};

// What a deterministic run loses with an actor.
inline constexpr const char* kNoLongerExact = "; its streams are fresh: this run can no longer be repeated to the bit";

}  // namespace parl
