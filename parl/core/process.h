// Facts of processes, and what starting one takes. Linux.
// Thread rule: any thread; environment_with() while nobody changes the environment.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace parl {

// This machine's name; "localhost" when it has none.
const std::string& this_host();

// Resident memory of a process in bytes, from /proc; 0 when it is gone. 0 as pid: this process.
int64_t resident_bytes(int pid = 0);

// What this process may still take before the machine swaps or its container's limit ends it, in bytes; 0: unknown.
int64_t available_memory_bytes();
// The same from the texts of /proc/meminfo and of a control group's limit, usage and memory.stat (whose inactive_file
// can be had back); an empty text or "max" is no limit.
int64_t available_memory_of(const std::string& meminfo, const std::string& limit, const std::string& used,
                            const std::string& stat);

// This process's environment as "NAME=value", with these values for these names.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes);

// What exec and posix_spawn take: pointers into `strings`, which must outlive them unchanged, and a null at the end.
std::vector<char*> exec_pointers(std::vector<std::string>& strings);

}  // namespace parl
