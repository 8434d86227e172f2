#include "parl/core/memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace parl {
namespace {

// The number after `key` at the beginning of a line; 0 when there is none.
int64_t number_after(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return std::strtoll(line.c_str() + key.size(), nullptr, 10);
  }
  return 0;
}

std::string text_of(const std::string& path) {
  std::ostringstream out;
  if (std::ifstream in(path); in) out << in.rdbuf();
  return out.str();
}

}  // namespace

int64_t available_memory_of(const std::string& meminfo, const std::string& limit, const std::string& used,
                            const std::string& stat) {
  const int64_t available = number_after(meminfo, "MemAvailable:") * 1024;
  int64_t most = 0, taken = 0;
  if (!(std::istringstream(limit) >> most)) return available;
  std::istringstream(used) >> taken;
  const int64_t left = std::max<int64_t>(most - taken + number_after(stat, "inactive_file "), 0);
  return available > 0 ? std::min(available, left) : left;
}

int64_t available_memory_bytes() {
  const std::string meminfo = text_of("/proc/meminfo"), two = "/sys/fs/cgroup/", one = "/sys/fs/cgroup/memory/";
  if (const std::string limit = text_of(two + "memory.max"); !limit.empty()) {
    return available_memory_of(meminfo, limit, text_of(two + "memory.current"), text_of(two + "memory.stat"));
  }
  return available_memory_of(meminfo, text_of(one + "memory.limit_in_bytes"), text_of(one + "memory.usage_in_bytes"),
                             text_of(one + "memory.stat"));
}

}  // namespace parl
