// Errors and checks. Every exception that PARL throws on purpose derives from parl::Error.
//
// PARL_CHECK(condition, "format {}", value...)  throws parl::Error when the condition is false; on in every build.
// PARL_CHECK_EQ/NE/LT/LE/GT/GE(a, b, "format"...) also print both expressions with their values.
// An expected outcome is a value, not an exception: Queue::pop() gives an empty optional when the queue is closed.
// Thread rule: everything here may be called from any thread.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace parl {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
  // The calls that led to the throw, one a line, innermost first; names as far as the program exports them.
  std::string stack() const;

 private:
  std::shared_ptr<const std::vector<void*>> frames_;
};

// Throws Error with a formatted message.
template <typename... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

// The candidates closest to `word` by edit distance, best first; at most `limit`, only plausible ones.
std::vector<std::string> nearest_names(std::string_view word, const std::vector<std::string>& candidates,
                                       size_t limit = 3);

// ", did you mean 'a' or 'b'?" for an error message; empty when nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

namespace internal {

[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& message);

template <typename... Args>
std::string check_message(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}
inline std::string check_message() { return {}; }

template <typename T>
std::string show(const T& value) {
  if constexpr (fmt::is_formattable<T>::value) {
    return fmt::format("{}", value);
  } else if constexpr (requires(std::ostream & os) { os << value; }) {
    std::ostringstream os;
    os << value;
    return os.str();
  } else {
    return "?";
  }
}

template <typename A, typename B>
std::string binary_values(const A& a, const B& b, const std::string& message) {
  return show(a) + " vs " + show(b) + (message.empty() ? "" : ": " + message);
}

}  // namespace internal
}  // namespace parl

#define PARL_CHECK(condition, ...)                                                                                  \
  do {                                                                                                              \
    if (!(condition)) [[unlikely]]                                                                                  \
      ::parl::internal::check_failed(__FILE__, __LINE__, #condition, ::parl::internal::check_message(__VA_ARGS__)); \
  } while (false)

#define PARL_CHECK_OP_(op, a, b, ...)                                                                       \
  do {                                                                                                      \
    const auto& parl_a_ = (a);                                                                              \
    const auto& parl_b_ = (b);                                                                              \
    if (!(parl_a_ op parl_b_)) [[unlikely]]                                                                 \
      ::parl::internal::check_failed(                                                                       \
          __FILE__, __LINE__, #a " " #op " " #b,                                                            \
          ::parl::internal::binary_values(parl_a_, parl_b_, ::parl::internal::check_message(__VA_ARGS__))); \
  } while (false)

#define PARL_CHECK_EQ(a, b, ...) PARL_CHECK_OP_(==, a, b, __VA_ARGS__)
#define PARL_CHECK_NE(a, b, ...) PARL_CHECK_OP_(!=, a, b, __VA_ARGS__)
#define PARL_CHECK_LT(a, b, ...) PARL_CHECK_OP_(<, a, b, __VA_ARGS__)
#define PARL_CHECK_LE(a, b, ...) PARL_CHECK_OP_(<=, a, b, __VA_ARGS__)
#define PARL_CHECK_GT(a, b, ...) PARL_CHECK_OP_(>, a, b, __VA_ARGS__)
#define PARL_CHECK_GE(a, b, ...) PARL_CHECK_OP_(>=, a, b, __VA_ARGS__)
