// Counters of a manager. Any thread; each number is exact, the set of them is not one instant.
#pragma once

#include <atomic>
#include <cstdint>

#include "parl/core/fields.h"

namespace parl {

struct RemoteStats {
  uint64_t objects_created = 0;
  uint64_t calls = 0;         // accepted
  uint64_t errors = 0;        // completed with a failure
  uint64_t late_results = 0;  // came after the caller had gone (deadline, cancel), dropped
  uint64_t restarts = 0;
  uint64_t arrays_in_place = 0;  // process: large arrays that travelled without a copy
  uint64_t arrays_copied = 0;    // process: one copy, because the caller kept the array or the slab was full
  uint64_t values_skipped = 0;   // Versioned values that the peer had already
};
PARL_FIELDS(RemoteStats, objects_created, calls, errors, late_results, restarts, arrays_in_place, arrays_copied,
            values_skipped);

struct RemoteSlots {
  int total = 0;  // 0: unlimited
  int used = 0;   // by objects that live, or are being built
  int vacant = 0;
};
PARL_FIELDS(RemoteSlots, total, used, vacant);

namespace internal {

struct StatCounters {
  std::atomic<uint64_t> objects_created{0}, calls{0}, errors{0}, late_results{0}, restarts{0}, arrays_in_place{0},
      arrays_copied{0}, values_skipped{0};
  RemoteStats read() const {
    return {objects_created, calls, errors, late_results, restarts, arrays_in_place, arrays_copied, values_skipped};
  }
};

}  // namespace internal
}  // namespace parl
