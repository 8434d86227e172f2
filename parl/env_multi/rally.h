// Rally: two paddles at the ends of a court, one ball. Who misses it pays 1 to the other, and the game is over.
//
// The court is 9 cells wide and 12 long. Each step every agent moves its paddle (three cells) left, not at all or right
// (actions 0, 1, 2), then the ball moves one cell along and up to one aside; it bounces off the side walls. A paddle
// that stands where the ball arrives sends it back: straight from its middle, aside from its ends. The serve starts in
// the middle of the court in a random direction. After `max_steps` steps nobody has lost (truncated for both).
// Observation, float32 [6], in [-1, 1], from the agent's own side (for both the ball comes closer as y falls): own
// paddle, the other's, ball x, ball y, and the ball's step in x and y. So one policy can play either side. Thread rule:
// one thread at a time.
#pragma once

#include <array>

#include "parl/core/rng.h"
#include "parl/env/parallel_env.h"

namespace parl {

class Rally final : public ParallelEnv {
 public:
  static constexpr int kWidth = 9, kLength = 12;

  explicit Rally(int64_t max_steps = 200);

  const ParallelSpec& spec() const override { return spec_; }
  void reset(std::optional<uint64_t> seed, Places obs) override;
  void step(std::span<const Action> actions, Places obs, std::span<StepResult> results) override;
  bool alive(size_t /*agent*/) const override { return running_; }
  // "rally": how often the ball was sent back.
  void scalars(size_t agent, std::vector<std::pair<std::string, double>>& out) const override;
  void render(Image& out) override;
  bool can_save_state() const override { return true; }
  std::vector<std::byte> save_state() const override;
  void load_state(std::span<const std::byte> state) override;

 private:
  void write(Places obs) const;
  // The ball has arrived at that agent's end: whether the paddle stands there.
  bool send_back(size_t agent);

  ParallelSpec spec_;
  int64_t max_steps_;
  CounterRng rng_{0, 0};
  std::array<int, 2> paddle_{};  // middle cells; agent 0 at y = 0, agent 1 at y = kLength - 1
  int x_ = 0, y_ = 0, dx_ = 0, dy_ = 1;
  int64_t steps_ = 0, returned_ = 0;
  bool running_ = false;
};

}  // namespace parl
