// EnvRegistry: from a name to an environment. A value that main() fills: no self-registering globals.
//
//   EnvRegistry registry;
//   register_builtin_envs(registry);                      // classic control
//   auto env = registry.make({.id = "atari:pong", .args = {{"preset", "parl"}}});
//
// An unknown name or option is an error that lists the nearest ones.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parl/env/parallel_env.h"

namespace parl {

using EnvArgs = std::map<std::string, std::string>;

enum class EnvMode {
  kTraining,
  kEvaluation,  // no reward clipping, full games, raw score
};

struct EnvRequest {
  std::string id;
  EnvArgs args = {};
  EnvMode mode = EnvMode::kTraining;
};

struct EnvOption {
  std::string name, default_value, help;
};

struct EnvFamily {
  std::string prefix;                               // "" for plain names, "atari" for "atari:pong"
  std::string summary;                              // one line for `parl list envs`
  std::function<std::vector<std::string>()> names;  // full ids that exist
  std::vector<EnvOption> options;                   // every option; anything else is refused (but see `open`)
  std::function<std::unique_ptr<Env>(const EnvRequest&)> make;
  std::function<std::unique_ptr<ParallelEnv>(const EnvRequest&)> make_parallel = {};  // instead of `make`
  bool open = false;  // any name behind the prefix and any option: `make` says what is wrong with them
};

class EnvRegistry {
 public:
  // Throws when a name is taken.
  void add(EnvFamily family);
  // A single environment: factory(args) -> Env. Options as in EnvFamily.
  void add(const std::string& id, const std::string& summary,
           std::function<std::unique_ptr<Env>(const EnvRequest&)> make, std::vector<EnvOption> options = {});

  // A single environment of several agents.
  void add_parallel(const std::string& id, const std::string& summary,
                    std::function<std::unique_ptr<ParallelEnv>(const EnvRequest&)> make,
                    std::vector<EnvOption> options = {});

  // Checks name and options, makes the environment, and wraps it so that it records episodes. Where several agents
  // share one: its first seat, good for looking at.
  std::unique_ptr<Env> make(const EnvRequest& request) const;
  // How many agents share one: 1 for most.
  int64_t agents_of(const EnvRequest& request) const;
  // For VectorEnv: call it with 0, 1, 2, ... Agents that share an environment are neighbours. Throws when `count`
  // leaves an environment with empty seats. The registry must outlive it.
  std::function<std::unique_ptr<Env>(int index)> vector_factory(const EnvRequest& request, int64_t count) const;

  std::vector<std::string> names() const;
  const std::vector<EnvFamily>& families() const { return families_; }
  const EnvFamily& family_of(const std::string& id) const;  // throws with the near names

 private:
  std::vector<std::unique_ptr<Env>> make_all(const EnvRequest& request) const;
  std::vector<EnvFamily> families_;
};

void register_builtin_envs(EnvRegistry& registry);  // classic control

// Typed reading of arguments; a value that does not parse is an error naming option, value and what is expected.
int64_t arg_int(const EnvArgs& args, const std::string& name, int64_t default_value);
double arg_double(const EnvArgs& args, const std::string& name, double default_value);
bool arg_bool(const EnvArgs& args, const std::string& name, bool default_value);
std::string arg_choice(const EnvArgs& args, const std::string& name, const std::string& default_value,
                       const std::vector<std::string>& choices);

}  // namespace parl
