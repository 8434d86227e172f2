// The code of docs/add-an-env.md: compiled and run here, and the page must quote it to the letter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <sstream>

#include "parl/env/allocation_counter.h"
#include "parl/env/dummy_env.h"
#include "parl/env/env_conformance.h"
#include "parl/env/registry.h"
#include "parl/env/vector_env.h"
#include "parl/env/wrappers.h"

namespace parl {
namespace {

TEST(Dummy, KeepsTheContract) {
  check_env([] { return std::make_unique<DummyEnv>(); }, {.allocations = allocations_of_this_thread});
}

void register_my_envs(EnvRegistry& registry) {
  registry.add("Dummy-v0", "walk along a corridor (2 actions)",
               [](const EnvRequest& request) -> std::unique_ptr<Env> {
                 std::unique_ptr<Env> env = std::make_unique<DummyEnv>();
                 env = std::make_unique<TimeLimit>(std::move(env), arg_int(request.args, "max_episode_steps", 50));
                 if (request.mode == EnvMode::kTraining) env = RewardClip::sign(std::move(env));
                 return env;
               },
               {{"max_episode_steps", "50", "steps until an episode is truncated"}});
}

TEST(AddAnEnv, OneEnvironmentByName) {
  EnvRegistry registry;
  register_my_envs(registry);

  auto env = registry.make({.id = "Dummy-v0", .args = {{"max_episode_steps", "20"}}});
  std::vector<float> obs(static_cast<size_t>(env->spec().observation.size()));
  const auto place = std::as_writable_bytes(std::span(obs));
  env->reset(7, place);
  StepResult result;
  while (!result.done()) result = env->step(Action::discrete(1), place);

  std::vector<Episode> episodes;
  env->take_episodes(episodes);  // one: length, raw return, truncated or not, your scalars
  EXPECT_EQ(episodes.size(), 1u);
}

TEST(AddAnEnv, ManyAtOnce) {
  EnvRegistry registry;
  register_my_envs(registry);

  VectorEnv envs({.count = 8, .seed = 1, .threads = 2}, [&](int) { return registry.make({.id = "Dummy-v0"}); });
  std::vector<float> obs(8 * 2);  // a row for each environment
  const auto row = [&](int i) { return std::as_writable_bytes(std::span(obs).subspan(static_cast<size_t>(i) * 2, 2)); };
  std::vector<int64_t> actions(8, 1);
  std::vector<StepResult> results(8);
  envs.reset(row);
  for (int t = 0; t < 100; ++t) envs.step(actions, {}, row, results);

  std::vector<Episode> episodes;
  envs.take_episodes(episodes);
  EXPECT_GT(episodes.size(), 100u);
}

std::string read_file(const std::string& path) {
  std::ifstream file(std::string(PARL_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Blank space is the formatter's business.
std::string without_space(const std::string& text) {
  std::string out;
  std::copy_if(text.begin(), text.end(), std::back_inserter(out), [](unsigned char c) { return std::isspace(c) == 0; });
  return out;
}

// "From `parl/env/dummy_env.h`:" before a block of code names the file that it is taken from.
TEST(AddAnEnv, ThePageQuotesCodeThatIsCompiled) {
  std::istringstream page(read_file("docs/add-an-env.md"));
  std::string file, block;
  int blocks = 0;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (inside && line == "```") {
      inside = false;
      ++blocks;
      ASSERT_FALSE(file.empty()) << "no file is named before:\n" << block;
      EXPECT_NE(without_space(read_file(file)).find(without_space(block)), std::string::npos)
          << "not in " << file << ":\n"
          << block;
      file.clear();
    } else if (inside) {
      block += line + "\n";
    } else if (line == "```cpp") {
      inside = true;
      block.clear();
    } else if (line.starts_with("From `")) {
      file = line.substr(6, line.find('`', 6) - 6);
    }
  }
  EXPECT_GE(blocks, 6);
}

}  // namespace
}  // namespace parl
