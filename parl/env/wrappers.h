// Wrappers: environments around an environment. Each owns the one inside and is an Env itself.
//
// The order matters, and a wrong one is refused when it is put together:
//   FrameSkip, TimeLimit      change how long an episode is: they go inside EpisodeStatistics
//   EpisodeStatistics         sees raw rewards and every end, time limits included
//   RewardClip                changes the reward to learn from: goes outside (and adds EpisodeStatistics where missing)
//   ScaleObservation, FrameStack   anywhere; not for observations with parts
// Episodes are recorded by the environment itself or by one EpisodeStatistics, so each is recorded once.
// Every wrapper adds what it does to the spec's contract, and saves and loads its own state where the environment
// inside can.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "parl/env/env.h"

namespace parl {

// Passes everything on. Derive from it and override what you change; own_state is what load/save must add.
class EnvWrapper : public Env {
 public:
  explicit EnvWrapper(std::unique_ptr<Env> inner);

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override { inner_->reset(seed, obs); }
  StepResult step(const Action& action, std::span<std::byte> obs) override { return inner_->step(action, obs); }
  bool can_begin_step() const override { return inner_->can_begin_step(); }
  void begin_step(const Action& action) override { inner_->begin_step(action); }
  bool records_episodes() const override { return inner_->records_episodes(); }
  void take_episodes(std::vector<Episode>& out) override { inner_->take_episodes(out); }
  void scalars(std::vector<std::pair<std::string, double>>& out) const override { inner_->scalars(out); }
  void render(Image& out) override { inner_->render(out); }
  bool can_save_state() const override { return inner_->can_save_state(); }
  std::vector<std::byte> save_state() const final;
  void load_state(std::span<const std::byte> state) final;

  Env& inner() { return *inner_; }

 protected:
  virtual void save_own(class StateWriter& /*out*/) const {}
  virtual void load_own(class StateReader& /*in*/) {}
  EnvSpec& mutable_spec() { return spec_; }

 private:
  std::unique_ptr<Env> inner_;
  EnvSpec spec_;
};

// Truncates an episode after `max_steps` steps.
class TimeLimit final : public EnvWrapper {
 public:
  TimeLimit(std::unique_ptr<Env> inner, int64_t max_steps);
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override;
  StepResult step(const Action& action, std::span<std::byte> obs) override;

 private:
  void save_own(StateWriter& out) const override;
  void load_own(StateReader& in) override;
  const int64_t max_steps_;
  int64_t steps_ = 0;
  bool running_ = false;
};

// Repeats every action `skip` times, or until the episode ends; rewards are summed, the last observation counts.
class FrameSkip final : public EnvWrapper {
 public:
  FrameSkip(std::unique_ptr<Env> inner, int skip);
  StepResult step(const Action& action, std::span<std::byte> obs) override;

 private:
  const int skip_;
};

// Records finished episodes: the sum of the rewards it sees, the length, the environment's scalars. A step that
// terminates and truncates counts as terminated. An episode given up by reset() before its end is not recorded.
class EpisodeStatistics final : public EnvWrapper {
 public:
  explicit EpisodeStatistics(std::unique_ptr<Env> inner);
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override;
  StepResult step(const Action& action, std::span<std::byte> obs) override;
  bool records_episodes() const override { return true; }
  void take_episodes(std::vector<Episode>& out) override;

 private:
  void save_own(StateWriter& out) const override;
  void load_own(StateReader& in) override;
  double raw_return_ = 0;
  int64_t length_ = 0;
  std::vector<Episode> finished_;
};

// The reward to learn from: its sign, or clamped to [low, high]. Recorded returns stay raw.
class RewardClip final : public EnvWrapper {
 public:
  static std::unique_ptr<RewardClip> sign(std::unique_ptr<Env> inner);
  static std::unique_ptr<RewardClip> range(std::unique_ptr<Env> inner, float low, float high);
  StepResult step(const Action& action, std::span<std::byte> obs) override;

 private:
  RewardClip(std::unique_ptr<Env> inner, bool sign, float low, float high);
  const bool sign_;
  const float low_, high_;
};

// Observations as float32 with the space's [low, high] mapped to [0, 1]: images become x / 255. The space must be
// bounded.
class ScaleObservation final : public EnvWrapper {
 public:
  explicit ScaleObservation(std::unique_ptr<Env> inner);
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override;
  StepResult step(const Action& action, std::span<std::byte> obs) override;

 private:
  void convert(std::span<std::byte> obs) const;
  std::vector<std::byte> raw_;
  std::vector<float> offset_, scale_;
};

// The last `count` observations side by side in the last dimension, oldest first: [H, W, C] becomes [H, W, C * count].
// After a reset the first observation stands there `count` times: no stack crosses an end.
class FrameStack final : public EnvWrapper {
 public:
  FrameStack(std::unique_ptr<Env> inner, int count);
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override;
  StepResult step(const Action& action, std::span<std::byte> obs) override;

 private:
  void save_own(StateWriter& out) const override;
  void load_own(StateReader& in) override;
  void write(std::span<std::byte> obs) const;
  std::span<std::byte> frame(int slot) { return std::span(frames_).subspan(slot * frame_bytes_, frame_bytes_); }
  const int count_;
  const size_t frame_bytes_, chunk_bytes_;  // chunk: the last dimension of one frame
  int newest_ = 0;                          // slot of the newest frame in the ring
  std::vector<std::byte> frames_;
};

}  // namespace parl
