// Counts memory allocations per thread, for tests that promise none. Link the target parl_allocation_counter, which
// replaces operator new and delete of the program.
#pragma once

#include <cstdint>

namespace parl {

uint64_t allocations_of_this_thread();  // since the thread started
uint64_t allocations_of_all_threads();

}  // namespace parl
