// How much memory there is to be had. Linux. Thread rule: any thread.
#pragma once

#include <cstdint>
#include <string>

namespace parl {

// What this process may still take before the machine swaps or its container's limit ends it, in bytes; 0: unknown.
int64_t available_memory_bytes();
// The same from the texts of /proc/meminfo and of a control group's limit, usage and memory.stat (whose inactive_file
// can be had back); an empty text or "max" is no limit.
int64_t available_memory_of(const std::string& meminfo, const std::string& limit, const std::string& used,
                            const std::string& stat);

}  // namespace parl
