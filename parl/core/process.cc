#include "parl/core/process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>

extern char** environ;

namespace parl {

const std::string& this_host() {
  static const std::string& host = *new std::string([] {
    std::array<char, 256> name{};
    const bool is_known = ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0';
    return is_known ? std::string(name.data()) : std::string("localhost");
  }());
  return host;
}

int64_t resident_bytes(int pid) {
  std::ifstream in(pid == 0 ? "/proc/self/statm" : fmt::format("/proc/{}/statm", pid));
  int64_t total = 0, resident = 0;
  if (!(in >> total >> resident)) return 0;
  return resident * ::sysconf(_SC_PAGESIZE);
}

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

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool changed = std::any_of(changes.begin(), changes.end(), [&](const auto& c) { return c.first == name; });
    if (!changed) result.push_back(text);
  }
  for (const auto& [name, value] : changes) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> exec_pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (auto& s : strings) result.push_back(s.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace parl
