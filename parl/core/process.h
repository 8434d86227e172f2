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

// This process's environment as "NAME=value", with these values for these names.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes);

// What exec and posix_spawn take: pointers into `strings`, which must outlive them unchanged, and a null at the end.
std::vector<char*> exec_pointers(std::vector<std::string>& strings);

}  // namespace parl
