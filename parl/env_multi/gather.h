// Gather: 2 to 4 agents collect fruit on a grid of 7 x 7. Light fruit (weight 1) takes one of them, heavy fruit (weight
// 2) two that stand beside it at the same time.
//
// Each step every agent stays or goes up, down, left or right (actions 0..4), one after another in their order; a cell
// that is taken, or fruit, is not entered. Then each fruit that has at least as many agents beside it (above, below,
// left, right) as it weighs is gone, and those agents share its weight, divided by the weight of all fruit at the
// start: so the rewards of all agents sum to 1 when everything is gathered, which ends the game (terminated for all).
// After `max_steps` steps it is truncated. Which fruit is heavy and where everything stands is drawn at every reset.
// Observation, float32 [2 + 2 (agents - 1) + 4 fruit], in [-1, 1]: own place; the others' places relative to it, in
// their order behind the agent's own (the next one first); and of each fruit its place relative to the agent, its
// weight / 2 and 1 while it is there (else four zeros). After level-based foraging (Albrecht and Ramamoorthy 2013,
// arXiv 1506.01170). Thread rule: one thread at a time.
#pragma once

#include <array>

#include "parl/core/rng.h"
#include "parl/env/parallel_env.h"

namespace parl {

struct GatherOptions {
  int agents = 2;  // 2..4
  int fruit = 3;   // 1..6
  int64_t max_steps = 50;
};

class Gather final : public ParallelEnv {
 public:
  static constexpr int kSize = 7, kMaxAgents = 4, kMaxFruit = 6;

  explicit Gather(GatherOptions options = {});

  const ParallelSpec& spec() const override { return spec_; }
  void reset(std::optional<uint64_t> seed, Places obs) override;
  void step(std::span<const Action> actions, Places obs, std::span<StepResult> results) override;
  bool alive(size_t /*agent*/) const override { return state_.running; }
  // "gathered": share of the fruit's weight that is gone.
  void scalars(size_t agent, std::vector<std::pair<std::string, double>>& out) const override;
  void render(Image& out) override;
  bool can_save_state() const override { return true; }
  std::vector<std::byte> save_state() const override;
  void load_state(std::span<const std::byte> state) override;

 private:
  struct Cell {
    int x = 0, y = 0;
    bool operator==(const Cell&) const = default;
  };
  struct Fruit {
    Cell at;
    int weight = 0;  // 0: gone
  };
  struct State {
    std::array<Cell, kMaxAgents> agents{};
    std::array<Fruit, kMaxFruit> fruit{};
    int total = 0, left = 0;  // weight
    int64_t steps = 0;
    bool running = false;
  };

  bool taken(Cell cell) const;
  Cell free_cell(bool inside);
  void move(int agent, int64_t action);
  void pick(std::span<StepResult> results);
  void write(Places obs) const;

  GatherOptions options_;
  ParallelSpec spec_;
  CounterRng rng_{0, 0};
  State state_;
};

}  // namespace parl
