#include "parl/core/check.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <numeric>

namespace parl {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return c == '_' ? '-' : std::tolower(c); });
  return out;
}

// Insertions, deletions, substitutions and swaps of neighbours ("trian" is one step from "train").
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

Error::Error(const std::string& message) : std::runtime_error(message) {
  std::array<void*, 32> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  constexpr int kOwn = 1;  // this constructor
  if (count > kOwn) frames_ = std::make_shared<const std::vector<void*>>(frames.begin() + kOwn, frames.begin() + count);
}

std::string Error::stack() const {
  std::string out;
  if (!frames_) return out;
  for (void* frame : *frames_) {
    Dl_info info{};
    dladdr(frame, &info);
    const std::string_view file = info.dli_fname ? info.dli_fname : "?";
    const auto offset = reinterpret_cast<uintptr_t>(frame) - reinterpret_cast<uintptr_t>(info.dli_fbase);
    std::string name;
    if (info.dli_sname) {
      int status = 0;
      char* demangled = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
      name = demangled ? demangled : info.dli_sname;
      std::free(demangled);
    }
    out += fmt::format("    {} ({}+0x{:x})\n", name.empty() ? "?" : name, file.substr(file.rfind('/') + 1), offset);
  }
  return out;
}

std::vector<std::string> nearest_names(std::string_view word, const std::vector<std::string>& candidates,
                                       size_t limit) {
  const std::string wanted = lower(word);
  std::vector<std::pair<size_t, std::string>> scored;
  for (const std::string& candidate : candidates) {
    const std::string name = lower(candidate);
    size_t distance = edit_distance(wanted, name);
    const bool contains = wanted.size() >= 3 && name.find(wanted) != std::string::npos;
    if (contains) distance = std::min<size_t>(distance, 1);
    if (contains || distance <= std::max<size_t>(1, std::max(wanted.size(), name.size()) / 3)) {
      scored.emplace_back(distance, candidate);
    }
  }
  std::stable_sort(scored.begin(), scored.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (size_t i = 0; i < scored.size() && i < limit; ++i) out.push_back(scored[i].second);
  return out;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto near = nearest_names(word, candidates);
  std::string out;
  for (size_t i = 0; i < near.size(); ++i) {
    out += i == 0 ? ", did you mean '" : (i + 1 == near.size() ? "' or '" : "', '");
    out += near[i];
  }
  if (!out.empty()) out += "'?";
  return out;
}

namespace internal {

void check_failed(const char* file, int line, const char* expression, const std::string& message) {
  const std::string_view path(file);
  const size_t at = path.rfind("parl/");
  const std::string_view shown = at == std::string_view::npos ? path : path.substr(at);
  throw Error(message.empty() ? fmt::format("check failed: {} ({}:{})", expression, shown, line)
                              : fmt::format("{} [check failed: {} ({}:{})]", message, expression, shown, line));
}

}  // namespace internal
}  // namespace parl
