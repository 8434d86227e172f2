// For tests: an environment variable that is set, also for processes that are started meanwhile, until the test's end.
// Thread rule: while no other thread reads the environment.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace parl::internal {

class TestVariable {
 public:
  TestVariable(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~TestVariable() {
    if (before_) {
      ::setenv(name_.c_str(), before_->c_str(), 1);
    } else {
      ::unsetenv(name_.c_str());
    }
  }
  TestVariable(const TestVariable&) = delete;
  TestVariable& operator=(const TestVariable&) = delete;

 private:
  const std::string name_;
  std::optional<std::string> before_;
};

}  // namespace parl::internal
