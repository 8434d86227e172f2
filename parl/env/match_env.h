// MatchEnv: the smallest task with all that an environment can show and be asked: a Dict observation with a picture, a
// Tuple, a number to choose by and, if wanted, a mask of legal actions; one action, several, or switches. For tests and
// for docs/add-an-env.md.
//
// The task: do what the observation shows. `goal` is a number of 0..2, `board` a picture whose left or right half is
// lit, `arm/1` two switches. Each step is paid 1 for all that is right, in equal parts: Discrete(3): the goal.
// MultiDiscrete([3,2]): the goal, and 0 for left or 1 for right. MultiBinary(2): the switches. A choice that the mask
// forbids costs 1 and is counted in the scalar "illegal". Four steps are an episode.
#pragma once

#include <cstring>
#include <numeric>

#include "parl/core/rng.h"
#include "parl/env/env.h"
#include "parl/env/state_io.h"

namespace parl {

class MatchEnv final : public Env {
 public:
  enum class Actions { kOne, kSeveral, kSwitches };

  explicit MatchEnv(Actions actions = Actions::kOne, bool mask = false) : actions_(actions) {
    if (actions == Actions::kOne) spec_.action = Discrete{3};
    if (actions == Actions::kSeveral) spec_.action = MultiDiscrete{{3, 2}};
    if (actions == Actions::kSwitches) spec_.action = MultiBinary{2};
    choices_ = choices_of(spec_.action);
    Dict observation{{{"board", Box{DType::kU8, {8, 8, 1}, {0}, {255}}},
                      {"arm", Tuple{{Box{DType::kF32, {2}, {-1}, {1}}, MultiBinary{2}}}},
                      {"goal", Discrete{3}}}};
    if (mask) {
      const int64_t all = std::accumulate(choices_.begin(), choices_.end(), int64_t{0});
      observation.items.emplace_back(kActionMask, MultiBinary{all});
    }
    spec_.id = "Match";
    spec_.set_observation(observation);
    spec_.max_episode_steps = kSteps;
    spec_.contract = fmt::format("Match, 4 steps, {}{}", to_string(spec_.action), mask ? ", with a mask" : "");
    board_ = spec_.part("board");
    position_ = spec_.part("arm/0");
    switches_ = spec_.part("arm/1");
    goal_ = spec_.part("goal");
    if (mask) mask_ = spec_.part(kActionMask);
  }

  const EnvSpec& spec() const override { return spec_; }

  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override {
    if (seed) rng_ = CounterRng(*seed, 0);
    steps_ = illegal_ = 0;
    running_ = true;
    draw();
    write(obs);
  }

  StepResult step(const Action& action, std::span<std::byte> obs) override {
    PARL_CHECK(running_, "'{}': step() after the end of an episode or before the first reset(); call reset()",
               spec_.id);
    check_action(spec_, action);
    StepResult result;
    for (size_t i = 0; i < choices_.size(); ++i) {
      const int64_t number = actions_ == Actions::kOne ? action.index : action.indices[i];
      const float share = 1.0f / static_cast<float>(choices_.size());
      if (number == right(i)) result.reward += share;
      if (i == 0 && !mask_.name.empty() && number == forbidden()) {
        result.reward -= 1;
        ++illegal_;
      }
    }
    result.terminated = ++steps_ == kSteps;
    running_ = !result.terminated;
    draw();
    write(obs);
    return result;
  }

  void scalars(std::vector<std::pair<std::string, double>>& out) const override {
    out.emplace_back("illegal", static_cast<double>(illegal_));
  }

  bool can_save_state() const override { return true; }
  std::vector<std::byte> save_state() const override {
    StateWriter out;
    out.put(rng_);
    out.put(state_);
    out.put(steps_);
    out.put(illegal_);
    out.put(running_);
    return out.take();
  }
  void load_state(std::span<const std::byte> state) override {
    StateReader in(state);
    in.get(rng_);
    in.get(state_);
    in.get(steps_);
    in.get(illegal_);
    in.get(running_);
    in.finish();
  }

 private:
  static constexpr int64_t kSteps = 4;
  struct State {
    int64_t goal = 0;
    uint32_t is_right = 0;
    uint32_t switches[2] = {0, 0};
  };

  void draw() { state_ = {rng_.below(3), rng_.below(2), {rng_.below(2), rng_.below(2)}}; }

  // Number i of the action that is paid.
  int64_t right(size_t i) const {
    if (actions_ == Actions::kSwitches) return state_.switches[i];
    return i == 0 ? state_.goal : state_.is_right;
  }
  // What the mask forbids the first number.
  int64_t forbidden() const { return (right(0) + 1) % choices_[0]; }

  void write(std::span<std::byte> obs) const {
    write_padding(obs, spec_.parts);
    const auto board = part_of<uint8_t>(obs, board_);
    for (size_t i = 0; i < board.size(); ++i) board[i] = (i % 8 >= 4) == (state_.is_right == 1) ? 255 : 0;
    const auto position = part_of<float>(obs, position_);
    position[0] = static_cast<float>(steps_) / kSteps;
    position[1] = -position[0];
    for (size_t i = 0; i < 2; ++i) part_of<uint8_t>(obs, switches_)[i] = static_cast<uint8_t>(state_.switches[i]);
    part_of<int64_t>(obs, goal_)[0] = state_.goal;
    if (mask_.name.empty()) return;
    const auto mask = part_of<uint8_t>(obs, mask_);
    std::fill(mask.begin(), mask.end(), uint8_t{1});
    mask[static_cast<size_t>(forbidden())] = 0;
  }

  const Actions actions_;
  EnvSpec spec_;
  std::vector<int64_t> choices_;
  SpacePart board_, position_, switches_, goal_, mask_;
  CounterRng rng_{0, 0};
  State state_;
  int64_t steps_ = 0, illegal_ = 0;
  bool running_ = false;
};

}  // namespace parl
