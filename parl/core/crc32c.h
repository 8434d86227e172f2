// CRC-32C (Castagnoli), the checksum of iSCSI and ext4: finds damage by chance, not by intent (RFC 3720, B.4).
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace parl {

// Of `bytes` after what `before` is the checksum of; 0: after nothing.
uint32_t crc32c(const void* data, size_t bytes, uint32_t before = 0);

}  // namespace parl
