#include "cli/env_rate.h"

#include <algorithm>

#include "parl/core/clock.h"
#include "parl/core/rng.h"

namespace parl::cli {
namespace {

constexpr double kSlice = 1.0;

class Stepper {
 public:
  Stepper(const EnvRateSettings& settings, int threads, const EnvFactories& factory)
      : envs_({.count = settings.envs, .seed = settings.seed, .threads = threads}, factory()),
        place_([this](int i) { return std::span(obs_).subspan(static_cast<size_t>(i) * bytes_, bytes_); }),
        random_(settings.seed, 0),
        bytes_(envs_.spec().observation.bytes()),
        obs_(bytes_ * static_cast<size_t>(settings.envs)),
        results_(static_cast<size_t>(settings.envs)) {
    if (const auto* box = std::get_if<Box>(&envs_.spec().action)) {
      low_ = static_cast<float>(std::max(-1e3, box->low[0]));
      high_ = static_cast<float>(std::min(1e3, box->high[0]));
      box_size_ = static_cast<size_t>(box->size());
    } else {
      choices_ = choices_of(envs_.spec().action);
    }
    for (int i = 0; i < settings.envs; ++i) all_.push_back(i);
    envs_.reset(place_);
  }

  int64_t step_all() {
    draw(all_.size());
    envs_.step(indices_, values_, place_, results_);
    envs_.take_episodes(episodes_);
    episodes_.clear();
    return static_cast<int64_t>(all_.size());
  }

  void send_all() { send(all_); }
  int64_t receive_and_send() {
    const std::span<const int> first = envs_.receive(std::max<int>(1, static_cast<int>(all_.size()) / 2));
    ready_.assign(first.begin(), first.end());
    send(ready_);
    return static_cast<int64_t>(ready_.size());
  }
  void receive_all(int in_flight) { envs_.receive(in_flight); }

 private:
  void draw(size_t count) {
    if (!choices_.empty()) {
      indices_.resize(count * choices_.size());
      for (size_t i = 0; i < indices_.size(); ++i) {
        indices_[i] = random_.below(static_cast<uint32_t>(choices_[i % choices_.size()]));
      }
    } else {
      values_.resize(count * box_size_);
      for (float& value : values_) value = low_ + (high_ - low_) * random_.uniform();
    }
  }
  void send(std::span<const int> which) {
    draw(which.size());
    envs_.send(which, indices_, values_, place_);
  }

  VectorEnv envs_;
  const VectorEnv::ObsPlace place_;
  CounterRng random_;
  const size_t bytes_;
  std::vector<std::byte> obs_;
  std::vector<StepResult> results_;
  std::vector<int> all_, ready_;
  std::vector<int64_t> indices_;
  std::vector<float> values_;
  std::vector<Episode> episodes_;
  std::vector<int64_t> choices_;
  size_t box_size_ = 0;
  float low_ = 0, high_ = 0;
};

// Median rate of slices of a second, after one that warms up.
template <typename Step>
double rate(double seconds, Step&& step) {
  std::vector<double> rates;
  const int slices = std::max(1, static_cast<int>(seconds / kSlice + 0.5));
  for (int i = 0; i <= slices; ++i) {
    const auto start = Clock::now();
    int64_t steps = 0;
    do {
      steps += step();
    } while (seconds_since(start) < std::min(kSlice, seconds));
    if (i > 0) rates.push_back(static_cast<double>(steps) / seconds_since(start));
  }
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

}  // namespace

std::vector<EnvRate> measure_env_rates(const EnvRateSettings& settings, const EnvFactories& factory) {
  std::vector<EnvRate> rates;
  for (int threads = 1; threads <= settings.threads; ++threads) {
    Stepper stepper(settings, threads, factory);
    EnvRate r;
    r.threads = threads;
    r.sync_steps_per_s = rate(settings.seconds, [&] { return stepper.step_all(); });
    if (threads > 1 && settings.envs > 1) {
      stepper.send_all();
      r.async_steps_per_s = rate(settings.seconds, [&] { return stepper.receive_and_send(); });
      stepper.receive_all(settings.envs);
    }
    rates.push_back(r);
  }
  return rates;
}

}  // namespace parl::cli
