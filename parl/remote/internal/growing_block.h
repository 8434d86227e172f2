// Memory for an array whose bytes are still to come: pages of its own, which grow in place or move without a copy.
// Thread rule: like an ArrayBlock. Throws std::bad_alloc; the block is then as it was.
#pragma once

#include <cstddef>

#include "parl/wire/array.h"

namespace parl::internal {

// `bytes` > 0 of untouched, zeroed memory.
ArrayBlock map_block(size_t bytes);
// A block of map_block() has `bytes` from now on, more than before. It may lie elsewhere.
void grow_block(ArrayBlock& block, size_t bytes);

}  // namespace parl::internal
