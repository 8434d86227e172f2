// DummyEnv: a whole environment to copy. Write your own from it, then let check_env (env_conformance.h) look at it;
// docs/add-an-env.md walks through both.
//
// The task: a corridor of nine cells. The walker starts in one of the three in the middle, steps left (0) or right (1),
// and is paid 1 at the right end, -1 at the left end.
#pragma once

#include "parl/core/rng.h"
#include "parl/env/env.h"
#include "parl/env/state_io.h"

namespace parl {

class DummyEnv final : public Env {
 public:
  // 1. Say once what the agent sees and does. `contract` names every setting that changes results.
  DummyEnv() {
    spec_.id = "Dummy";
    spec_.observation = Box{DType::kF32, {2}, {0.0}, {1.0}};  // position and distance to the goal, both in [0, 1]
    spec_.action = Discrete{2};
    spec_.contract = "Dummy, 9 cells, reward 1 at the right end and -1 at the left";
  }
  const EnvSpec& spec() const override { return spec_; }

  // 2. Start an episode. A seed (0 too) starts the generator anew; without one it goes on. Draw only from that
  // generator.
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override {
    if (seed) rng_ = CounterRng(*seed, 0);
    cell_ = 3 + static_cast<int>(rng_.below(3));
    visits_ = 0;
    running_ = true;
    write(obs);
  }

  // 3. One step. Refuse what the contract refuses; write the observation straight into the caller's place; allocate
  //    nothing. `terminated`: the task is over. Leave `truncated` to TimeLimit unless the task has a limit of its own.
  StepResult step(const Action& action, std::span<std::byte> obs) override {
    PARL_CHECK(running_, "'{}': step() after the end of an episode or before the first reset(); call reset()",
               spec_.id);
    PARL_CHECK(action.index == 0 || action.index == 1, "'{}' has the actions 0 and 1, not {}", spec_.id, action.index);
    cell_ += action.index == 1 ? 1 : -1;
    StepResult result;
    result.terminated = cell_ == 0 || cell_ == kCells - 1;
    if (result.terminated) result.reward = cell_ == 0 ? -1.0f : 1.0f;
    if (cell_ == kCells / 2) ++visits_;
    running_ = !result.terminated;
    write(obs);
    return result;
  }

  // 4. Optional: figures of your own. They are averaged over finished episodes in the metrics.
  void scalars(std::vector<std::pair<std::string, double>>& out) const override { out.emplace_back("visits", visits_); }

  // 5. Optional: the whole state, so that a deterministic run can continue in the middle of an episode.
  bool can_save_state() const override { return true; }
  std::vector<std::byte> save_state() const override {
    StateWriter out;
    out.put(rng_);
    out.put(cell_);
    out.put(visits_);
    out.put(running_);
    return out.take();
  }
  void load_state(std::span<const std::byte> state) override {
    StateReader in(state);
    in.get(rng_);
    in.get(cell_);
    in.get(visits_);
    in.get(running_);
    in.finish();
  }

  // 6. Optional: a picture, for videos.
  void render(Image& out) override {
    constexpr int kSize = 16;  // pixels a cell
    out.width = kCells * kSize;
    out.height = kSize;
    out.rgb.assign(static_cast<size_t>(out.width * out.height * 3), 230);
    for (int y = 0; y < kSize; ++y) {
      for (int x = cell_ * kSize; x < (cell_ + 1) * kSize; ++x)
        out.rgb[static_cast<size_t>((y * out.width + x) * 3)] = 40;
    }
  }

 private:
  static constexpr int kCells = 9;

  void write(std::span<std::byte> obs) const {
    const float position = static_cast<float>(cell_) / (kCells - 1);
    const float values[2] = {position, 1 - position};
    PARL_CHECK_EQ(obs.size(), sizeof(values), "the place for an observation of '{}'", spec_.id);
    std::memcpy(obs.data(), values, sizeof(values));
  }

  EnvSpec spec_;
  CounterRng rng_{0, 0};
  int cell_ = 0, visits_ = 0;
  bool running_ = false;
};

}  // namespace parl
