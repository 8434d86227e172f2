// Environments that the tests of the training loop need: a countdown whose every number can be foreseen, and failing
// ones.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "parl/core/check.h"
#include "parl/core/rng.h"
#include "parl/env/match_env.h"
#include "parl/train/program.h"

namespace parl::testing {

// obs = {episode number, step in episode}; reward = step; truncates after `limit` steps, terminates when the episode's
// number is odd. fault: "throw" / "kill" / "hang" / "nan" happens once at step `at` of the first episode (a marker file
// says that it has happened).
class ScriptedEnv : public Env {
 public:
  ScriptedEnv(int64_t limit, std::string fault, int64_t at, std::string marker)
      : limit_(limit), fault_(std::move(fault)), at_(at), marker_(std::move(marker)) {
    spec_.id = "Scripted-v0";
    spec_.observation = Box{DType::kF32, {2}, {-1e9}, {1e9}};
    spec_.action = Discrete{2};
    spec_.max_episode_steps = limit;
    spec_.contract = "Scripted-v0";
  }
  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<uint64_t>, std::span<std::byte> obs) override {
    ++episode_;
    step_ = 0;
    write(obs);
  }
  StepResult step(const Action&, std::span<std::byte> obs) override {
    ++step_;
    write(obs);
    StepResult r;
    r.reward = static_cast<float>(step_);
    if (due()) fail(r);
    if (step_ >= limit_) (episode_ % 2 ? r.terminated : r.truncated) = true;
    return r;
  }
  void scalars(std::vector<std::pair<std::string, double>>& out) const override { out.emplace_back("level", episode_); }

 private:
  void write(std::span<std::byte> obs) const {
    const float values[2] = {static_cast<float>(episode_), static_cast<float>(step_)};
    std::memcpy(obs.data(), values, sizeof(values));
  }
  // The environment that makes the marker fails; a marker that cannot be made lets everybody fail, again and again.
  bool due() const {
    if (fault_.empty() || step_ != at_) return false;
    const int fd = open(marker_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) return errno != EEXIST;
    close(fd);
    return true;
  }
  void fail(StepResult& r) const {
    if (fault_ == "throw") raise("the simulator broke");
    if (fault_ == "kill") kill(getpid(), SIGKILL);
    if (fault_ == "hang") pause();
    if (fault_ == "nan") r.reward = std::nanf("");
  }

  EnvSpec spec_;
  int64_t limit_;
  std::string fault_;
  int64_t at_;
  std::string marker_;
  int64_t episode_ = -1, step_ = 0;
};

// A cue, 1 or -1, is shown at the first step alone and must be repeated at the last: reward 1 if it is, -1 if not.
// obs = {cue, whether this is the last step}. Without a memory the mean is 0. `mask`: obs = Dict of that, "cue", and a
// mask over three actions, which forbids the third at the last step and any one before; a forbidden one costs 1 and is
// counted in the scalar "illegal".
class RecallEnv : public Env {
 public:
  RecallEnv(int64_t length, bool mask) : length_(length), mask_(mask) {
    spec_.id = "Recall-v0";
    const Box cue{DType::kF32, {2}, {-1}, {1}};
    spec_.observation = cue;
    spec_.action = Discrete{mask ? 3 : 2};
    if (mask) spec_.set_observation(Dict{{{"cue", cue}, {kActionMask, MultiBinary{3}}}});
    spec_.contract = fmt::format("Recall-v0, {} steps{}", length, mask ? ", with a mask" : "");
  }
  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override {
    if (seed) rng_ = CounterRng(*seed, 0);
    cue_ = static_cast<int64_t>(rng_.below(2));
    step_ = illegal_ = 0;
    write(obs);
  }
  StepResult step(const Action& action, std::span<std::byte> obs) override {
    StepResult r;
    r.terminated = ++step_ == length_;
    if (r.terminated) r.reward = action.index == cue_ ? 1.0f : -1.0f;
    if (action.index == forbidden_) {
      r.reward -= 1;
      ++illegal_;
    }
    write(obs);
    return r;
  }
  void scalars(std::vector<std::pair<std::string, double>>& out) const override {
    if (mask_) out.emplace_back("illegal", static_cast<double>(illegal_));
  }

 private:
  void write(std::span<std::byte> obs) {
    if (mask_) write_padding(obs, spec_.parts);
    const float values[2] = {step_ == 0 ? (cue_ ? 1.0f : -1.0f) : 0.0f, step_ == length_ - 1 ? 1.0f : 0.0f};
    std::memcpy(obs.data(), values, sizeof(values));
    if (!mask_) return;
    forbidden_ = step_ == length_ - 1 ? 2 : static_cast<int64_t>(rng_.below(3));
    const auto mask = part_of<uint8_t>(obs, spec_.part(kActionMask));
    for (int64_t i = 0; i < 3; ++i) mask[static_cast<size_t>(i)] = i != forbidden_;
  }

  EnvSpec spec_;
  int64_t length_;
  bool mask_;
  CounterRng rng_{0, 0};
  int64_t cue_ = 0, step_ = 0, forbidden_ = -1, illegal_ = 0;
};

// A place in -1..1 is shown, and whether left and right are swapped: a Dict, or with `parts` off one array. The action,
// -2..2, should be twice the place, or minus that; each of the four steps of an episode pays 1 - the distance, in the
// place's units. By chance 1.3 of 4, by doing nothing 2.
class AimEnv : public Env {
 public:
  explicit AimEnv(bool parts) {
    spec_.id = "Aim-v0";
    const Box place{DType::kF32, {1}, {-1}, {1}};
    if (parts) {
      spec_.set_observation(Dict{{{"place", place}, {"swapped", Discrete{2}}}});
    } else {
      spec_.set_observation(Box{DType::kF32, {2}, {-1}, {1}});
    }
    spec_.action = Box{DType::kF32, {1}, {-2}, {2}};
    spec_.contract = "Aim-v0";
  }
  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override {
    if (seed) rng_ = CounterRng(*seed, 0);
    step_ = 0;
    write(obs);
  }
  StepResult step(const Action& action, std::span<std::byte> obs) override {
    StepResult r;
    r.reward = 1 - std::abs(action.values[0] / 2 - (swapped_ ? -place_ : place_));
    r.terminated = ++step_ == 4;
    write(obs);
    return r;
  }

 private:
  void write(std::span<std::byte> obs) {
    place_ = rng_.uniform() * 2 - 1;
    swapped_ = rng_.below(2) == 1;
    if (spec_.parts.empty()) {
      const float values[2] = {place_, swapped_ ? 1.0f : 0.0f};
      std::memcpy(obs.data(), values, sizeof(values));
      return;
    }
    write_padding(obs, spec_.parts);
    part_of<float>(obs, spec_.part("place"))[0] = place_;
    part_of<int64_t>(obs, spec_.part("swapped"))[0] = swapped_;
  }

  EnvSpec spec_;
  CounterRng rng_{0, 0};
  float place_ = 0;
  bool swapped_ = false;
  int64_t step_ = 0;
};

inline std::unique_ptr<Env> make_match(const EnvRequest& r) {
  const std::string actions = arg_choice(r.args, "actions", "one", {"one", "several", "switches"});
  const auto kind = actions == "one"       ? MatchEnv::Actions::kOne
                    : actions == "several" ? MatchEnv::Actions::kSeveral
                                           : MatchEnv::Actions::kSwitches;
  return std::make_unique<MatchEnv>(kind, arg_bool(r.args, "mask", false));
}

inline void register_test_envs(Program& p) {
  p.envs.add("Aim-v0", "act where the observation points",
             [](const EnvRequest& r) { return std::make_unique<AimEnv>(arg_bool(r.args, "parts", true)); },
             {{"parts", "true", "the observation is a Dict"}});
  p.envs.add("Match-v0", "do what the observation shows", make_match,
             {{"actions", "one", "one, several, switches"}, {"mask", "false", "of legal actions"}});
  p.envs.add("Recall-v0", "the first observation's cue is wanted at the last",
             [](const EnvRequest& r) {
               return std::make_unique<RecallEnv>(arg_int(r.args, "length", 6), arg_bool(r.args, "mask", false));
             },
             {{"length", "6", "steps per episode"}, {"mask", "false", "of legal actions"}});
  p.envs.add("Scripted-v0", "numbers that can be foreseen",
             [](const EnvRequest& r) {
               const auto text = [&](const char* name) { return r.args.count(name) ? r.args.at(name) : std::string(); };
               return std::make_unique<ScriptedEnv>(arg_int(r.args, "limit", 5), text("fault"),
                                                    arg_int(r.args, "at", 3), text("marker"));
             },
             {{"limit", "5", "steps per episode"},
              {"fault", "", "throw, kill, hang or nan"},
              {"at", "3", "step of the fault"},
              {"marker", "", "file"}});
}

}  // namespace parl::testing
