// What the tests of env_gym share.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "parl/env_gym/gym.h"

namespace parl::testing {

// The interpreter of the tests, or empty when it has no gymnasium. Also lets Python find testdata.
inline const std::string& test_python() {
  static const std::string& python = *new std::string([] {
    ::setenv("PYTHONPATH", PARL_SOURCE_DIR "/parl/env_gym/testdata", 1);
    ::setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    const std::string found = PARL_PYTHON;
    const std::string question = "'" + found + "' -c 'import gymnasium' >/dev/null 2>&1";
    return !found.empty() && std::system(question.c_str()) == 0 ? found : std::string();
  }());
  return python;
}

inline std::unique_ptr<GymEnv> make_gym(const std::string& id, EnvArgs args = {}) {
  args.emplace("python", test_python());
  if (id.starts_with("gym:Parl")) args.emplace("import", "parl_gym_test_envs");
  return std::make_unique<GymEnv>(gym_options({.id = id, .args = std::move(args)}));
}

class GymTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_python().empty()) GTEST_SKIP() << "set-up's Python (PARL_PYTHON) has no gymnasium";
  }
};

}  // namespace parl::testing
