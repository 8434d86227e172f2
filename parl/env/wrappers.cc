#include "parl/env/wrappers.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "parl/env/state_io.h"

namespace parl {
namespace {

Env& checked(const std::unique_ptr<Env>& inner) {
  PARL_CHECK(inner != nullptr, "a wrapper needs an environment");
  return *inner;
}

std::unique_ptr<Env> with_statistics(std::unique_ptr<Env> inner) {
  if (checked(inner).records_episodes()) return inner;
  return std::make_unique<EpisodeStatistics>(std::move(inner));
}

void check_place(const Env& env, std::span<std::byte> obs) {
  PARL_CHECK_EQ(obs.size(), env.spec().observation.bytes(), "'{}' writes observations of this size", env.spec().id);
}

void check_is_box(const EnvSpec& spec, const char* wrapper) {
  PARL_CHECK(spec.parts.empty(), "{} is for observations of one Box; that of '{}' has {} parts, the first '{}'",
             wrapper, spec.id, spec.parts.size(), spec.parts[0].name);
}

}  // namespace

EnvWrapper::EnvWrapper(std::unique_ptr<Env> inner) : inner_(std::move(inner)), spec_(checked(inner_).spec()) {}

std::vector<std::byte> EnvWrapper::save_state() const {
  StateWriter out;
  out.put_bytes(inner_->save_state());
  save_own(out);
  return out.take();
}

void EnvWrapper::load_state(std::span<const std::byte> state) {
  StateReader in(state);
  inner_->load_state(in.block());
  load_own(in);
  in.finish();
}

// --- TimeLimit -----------------------------------------------------------------------------------------------------

TimeLimit::TimeLimit(std::unique_ptr<Env> inner, int64_t max_steps)
    : EnvWrapper(std::move(inner)), max_steps_(max_steps) {
  PARL_CHECK_GT(max_steps, 0, "a time limit needs at least one step");
  PARL_CHECK(!records_episodes(), "put TimeLimit inside EpisodeStatistics: '{}' would not see its ends otherwise",
             spec().id);
  const int64_t own = spec().max_episode_steps;
  mutable_spec().max_episode_steps = own > 0 ? std::min(own, max_steps) : max_steps;
  mutable_spec().contract += fmt::format(", truncated after {} steps", max_steps);
}

void TimeLimit::reset(std::optional<uint64_t> seed, std::span<std::byte> obs) {
  inner().reset(seed, obs);
  steps_ = 0;
  running_ = true;
}

StepResult TimeLimit::step(const Action& action, std::span<std::byte> obs) {
  PARL_CHECK(running_, "'{}': step() after the end of an episode or before the first reset(); call reset()", spec().id);
  StepResult result = inner().step(action, obs);
  if (++steps_ >= max_steps_) result.truncated = true;
  running_ = !result.done();
  return result;
}

void TimeLimit::save_own(StateWriter& out) const {
  out.put(steps_);
  out.put(running_);
}

void TimeLimit::load_own(StateReader& in) {
  in.get(steps_);
  in.get(running_);
}

// --- FrameSkip -----------------------------------------------------------------------------------------------------

FrameSkip::FrameSkip(std::unique_ptr<Env> inner, int skip) : EnvWrapper(std::move(inner)), skip_(skip) {
  PARL_CHECK_GT(skip, 0, "an action is played at least once");
  PARL_CHECK(!records_episodes(), "put FrameSkip inside EpisodeStatistics: lengths of '{}' are counted in agent steps",
             spec().id);
  mutable_spec().frames_per_step *= skip;
  mutable_spec().contract += fmt::format(", every action {} times", skip);
  mutable_spec().max_episode_steps = (spec().max_episode_steps + skip - 1) / skip;
}

StepResult FrameSkip::step(const Action& action, std::span<std::byte> obs) {
  StepResult result;
  double reward = 0;
  for (int i = 0; i < skip_ && !result.done(); ++i) {
    result = inner().step(action, obs);
    reward += result.reward;
  }
  result.reward = static_cast<float>(reward);
  return result;
}

// --- EpisodeStatistics ---------------------------------------------------------------------------------------------

EpisodeStatistics::EpisodeStatistics(std::unique_ptr<Env> inner) : EnvWrapper(std::move(inner)) {
  PARL_CHECK(!EnvWrapper::records_episodes(), "'{}' records its episodes already: they would be counted twice",
             spec().id);
}

void EpisodeStatistics::reset(std::optional<uint64_t> seed, std::span<std::byte> obs) {
  inner().reset(seed, obs);
  raw_return_ = 0;
  length_ = 0;
}

StepResult EpisodeStatistics::step(const Action& action, std::span<std::byte> obs) {
  const StepResult result = inner().step(action, obs);
  raw_return_ += result.reward;
  ++length_;
  if (result.done()) {
    Episode& episode = finished_.emplace_back();
    episode.raw_return = raw_return_;
    episode.length = length_;
    episode.truncated = !result.terminated;
    inner().scalars(episode.scalars);
    raw_return_ = 0;
    length_ = 0;
  }
  return result;
}

void EpisodeStatistics::take_episodes(std::vector<Episode>& out) {
  out.insert(out.end(), std::make_move_iterator(finished_.begin()), std::make_move_iterator(finished_.end()));
  finished_.clear();
}

void EpisodeStatistics::save_own(StateWriter& out) const {
  out.put(raw_return_);
  out.put(length_);
  out.put(static_cast<uint64_t>(finished_.size()));
  for (const Episode& episode : finished_) {
    out.put(episode.raw_return);
    out.put(episode.length);
    out.put(episode.truncated);
    out.put(static_cast<uint64_t>(episode.scalars.size()));
    for (const auto& [name, value] : episode.scalars) {
      out.put_bytes(std::as_bytes(std::span(name)));
      out.put(value);
    }
  }
}

void EpisodeStatistics::load_own(StateReader& in) {
  in.get(raw_return_);
  in.get(length_);
  uint64_t episodes = 0;
  in.get(episodes);
  finished_.clear();
  for (uint64_t i = 0; i < episodes; ++i) {
    Episode& episode = finished_.emplace_back();
    in.get(episode.raw_return);
    in.get(episode.length);
    in.get(episode.truncated);
    uint64_t scalars = 0;
    in.get(scalars);
    for (uint64_t j = 0; j < scalars; ++j) {
      const auto name = in.block();
      auto& scalar =
          episode.scalars.emplace_back(std::string(reinterpret_cast<const char*>(name.data()), name.size()), 0.0);
      in.get(scalar.second);
    }
  }
}

// --- RewardClip ----------------------------------------------------------------------------------------------------

RewardClip::RewardClip(std::unique_ptr<Env> inner, bool sign, float low, float high)
    : EnvWrapper(with_statistics(std::move(inner))), sign_(sign), low_(low), high_(high) {
  mutable_spec().contract +=
      sign ? ", reward for learning: its sign" : fmt::format(", reward for learning in [{}, {}]", low, high);
}

std::unique_ptr<RewardClip> RewardClip::sign(std::unique_ptr<Env> inner) {
  return std::unique_ptr<RewardClip>(new RewardClip(std::move(inner), true, -1, 1));
}

std::unique_ptr<RewardClip> RewardClip::range(std::unique_ptr<Env> inner, float low, float high) {
  PARL_CHECK_LE(low, high, "rewards are clipped to [low, high]");
  return std::unique_ptr<RewardClip>(new RewardClip(std::move(inner), false, low, high));
}

StepResult RewardClip::step(const Action& action, std::span<std::byte> obs) {
  StepResult result = inner().step(action, obs);
  if (sign_) {
    result.reward = static_cast<float>((result.reward > 0) - (result.reward < 0));
  } else {
    result.reward = std::clamp(result.reward, low_, high_);
  }
  return result;
}

// --- ScaleObservation ----------------------------------------------------------------------------------------------

ScaleObservation::ScaleObservation(std::unique_ptr<Env> inner) : EnvWrapper(std::move(inner)) {
  check_is_box(spec(), "ScaleObservation");
  const Box from = spec().observation;
  PARL_CHECK(from.bounded(), "'{}' has observations without bounds ({}): they cannot be scaled by them", spec().id,
             to_string(from));
  PARL_CHECK(from.dtype == DType::kU8 || from.dtype == DType::kF32, "ScaleObservation reads u1 and f4, not {}",
             dtype_name(from.dtype));
  const auto size = static_cast<size_t>(from.size());
  raw_.resize(from.bytes());
  for (size_t i = 0; i < size; ++i) {
    const double low = from.low[from.low.size() == 1 ? 0 : i], high = from.high[from.high.size() == 1 ? 0 : i];
    PARL_CHECK_LT(low, high, "element {} of the observation has no range", i);
    offset_.push_back(static_cast<float>(low));
    scale_.push_back(static_cast<float>(1.0 / (high - low)));
  }
  mutable_spec().observation = Box{DType::kF32, from.shape, {0.0}, {1.0}};
  mutable_spec().contract += ", observations scaled to [0, 1]";
}

void ScaleObservation::reset(std::optional<uint64_t> seed, std::span<std::byte> obs) {
  check_place(*this, obs);
  inner().reset(seed, raw_);
  convert(obs);
}

StepResult ScaleObservation::step(const Action& action, std::span<std::byte> obs) {
  check_place(*this, obs);
  const StepResult result = inner().step(action, raw_);
  convert(obs);
  return result;
}

void ScaleObservation::convert(std::span<std::byte> obs) const {
  const bool bytes = raw_.size() == offset_.size();
  for (size_t i = 0; i < offset_.size(); ++i) {
    float x = 0;
    if (bytes) {
      x = static_cast<float>(std::to_integer<uint8_t>(raw_[i]));
    } else {
      std::memcpy(&x, &raw_[i * sizeof(float)], sizeof(float));
    }
    x = std::clamp((x - offset_[i]) * scale_[i], 0.0f, 1.0f);  // the last bit of scale_ must not leave the space
    std::memcpy(&obs[i * sizeof(float)], &x, sizeof(float));
  }
}

// --- FrameStack ----------------------------------------------------------------------------------------------------

namespace {

std::vector<double> repeat_bounds(const std::vector<double>& bounds, size_t chunk, int count) {
  if (bounds.size() == 1) return bounds;
  std::vector<double> out;
  for (size_t start = 0; start < bounds.size(); start += chunk) {
    for (int i = 0; i < count; ++i) out.insert(out.end(), bounds.begin() + start, bounds.begin() + start + chunk);
  }
  return out;
}

size_t last_dimension_bytes(const Box& box) {
  PARL_CHECK(!box.shape.empty(), "observations without a dimension cannot be stacked");
  return static_cast<size_t>(box.shape.back()) * dtype_size(box.dtype);
}

}  // namespace

FrameStack::FrameStack(std::unique_ptr<Env> inner, int count)
    : EnvWrapper(std::move(inner)),
      count_(count),
      frame_bytes_(spec().observation.bytes()),
      chunk_bytes_(last_dimension_bytes(spec().observation)) {
  PARL_CHECK_GT(count, 0, "a stack holds at least one observation");
  check_is_box(spec(), "FrameStack");
  Box& box = mutable_spec().observation;
  const auto chunk = static_cast<size_t>(box.shape.back());
  box.low = repeat_bounds(box.low, chunk, count);
  box.high = repeat_bounds(box.high, chunk, count);
  box.shape.back() *= count;
  mutable_spec().contract += fmt::format(", {} observations stacked", count);
  frames_.resize(frame_bytes_ * static_cast<size_t>(count));
}

void FrameStack::reset(std::optional<uint64_t> seed, std::span<std::byte> obs) {
  check_place(*this, obs);
  inner().reset(seed, frame(0));
  for (int slot = 1; slot < count_; ++slot) std::memcpy(frame(slot).data(), frame(0).data(), frame_bytes_);
  newest_ = 0;
  write(obs);
}

StepResult FrameStack::step(const Action& action, std::span<std::byte> obs) {
  check_place(*this, obs);
  const int slot = (newest_ + 1) % count_;
  const StepResult result = inner().step(action, frame(slot));
  newest_ = slot;
  write(obs);
  return result;
}

void FrameStack::write(std::span<std::byte> obs) const {
  const size_t chunks = frame_bytes_ / chunk_bytes_, stride = chunk_bytes_ * static_cast<size_t>(count_);
  for (int age = 0; age < count_; ++age) {
    const int slot = (newest_ + 1 + age) % count_;  // oldest first
    const std::byte* from = &frames_[static_cast<size_t>(slot) * frame_bytes_];
    std::byte* to = obs.data() + static_cast<size_t>(age) * chunk_bytes_;
    if (chunk_bytes_ == 1) {
      for (size_t i = 0; i < chunks; ++i) to[i * stride] = from[i];
    } else {
      for (size_t i = 0; i < chunks; ++i) std::memcpy(to + i * stride, from + i * chunk_bytes_, chunk_bytes_);
    }
  }
}

void FrameStack::save_own(StateWriter& out) const {
  out.put(newest_);
  out.put_bytes(frames_);
}

void FrameStack::load_own(StateReader& in) {
  in.get(newest_);
  in.get_bytes(frames_);
  PARL_CHECK(newest_ >= 0 && newest_ < count_, "this state belongs to a stack of another size");
}

}  // namespace parl
