#include "parl/core/process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

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
