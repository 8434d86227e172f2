// Evolution strategies need no environment, no episodes and no gradient: numbers, and a function that says how good
// they are. Here a drone that must hold its height in gusts of wind, simulated on remote workers; three gains of its
// controller are tuned. (Networks in environments: `parl train es --env CartPole-v1`.)
//   es                            workers in threads
//   es --parl-engine process      in processes; inline and tcp://host:port as everywhere. The numbers stay the same
// About a second.
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "parl/algorithms/es.h"
#include "parl/core/rng.h"
#include "parl/remote/remote.h"

namespace {

// What is tuned, as a Model: its parameters. There is nothing to forward.
struct Gains : parl::Model {
  at::Tensor gains = register_parameter("gains", torch::zeros({3}));
  parl::PolicyValue forward(const at::Tensor& obs) override { return {obs, obs}; }
};

// The black box: minus the mean distance (metres) from the wanted height over 20 seconds of flight. A motor with a
// delay and with limits, gusts by chance: nothing that could be differentiated.
double fly(const float* gains, uint64_t seed) {
  parl::CounterRng random(seed, 0);
  double height = -5, speed = 0, integral = 0, gust = 0, sum = 0;
  double thrust[4] = {};
  for (int step = 0; step < 400; ++step) {
    const double error = -height;
    integral += 0.05 * error;
    const double wanted = gains[0] * error + gains[1] * integral - gains[2] * speed;
    thrust[step % 4] = std::clamp(wanted, -4.0, 6.0);
    if (random.below(40) == 0) gust = 6 * random.uniform_double() - 4;
    speed += 0.05 * (thrust[(step + 1) % 4] + gust - 1);
    height += 0.05 * speed;
    sum += std::min(std::abs(height), 20.0);
  }
  return -sum / 400;
}

constexpr uint64_t kSeed = 1;
parl::EsConfig settings() {
  parl::EsConfig config;
  config.pairs = 16;   // mirrored pairs of trials in a generation
  config.sigma = 0.3;  // how far a trial is from the present numbers
  config.lr = 0.2;
  config.noise_table = 10'000;
  return config;
}

// The remote object. Every worker makes the same noise from the seed: what travels is the gains, numbers of pairs, and
// how good the trials were.
class Tester {
 public:
  std::vector<double> test(const parl::Versioned<parl::Weights>& gains, int64_t first, int64_t count) {
    es_.set_weights(*gains);
    std::vector<double> results;
    for (int64_t pair = first; pair < first + count; ++pair) {
      for (const int sign : {1, -1}) {
        es_.perturb(gains.version(), pair, sign);
        results.push_back(fly(model_->gains.data_ptr<float>(), static_cast<uint64_t>(1'000 * gains.version() + pair)));
      }
    }
    return results;
  }

 private:
  std::shared_ptr<Gains> model_ = std::make_shared<Gains>();
  parl::Es es_{model_, settings(), kSeed};
};
PARL_REMOTE_CLASS(Tester, test);

}  // namespace

int main(int argc, char** argv) {
  parl::RemoteManager manager(argc, argv);
  const auto testers = manager.create_all<Tester>(4);
  const auto gains = std::make_shared<Gains>();
  parl::Es es(gains, settings(), kSeed);
  const int64_t each = settings().pairs / 4;
  const auto report = [&](int64_t generation) {
    double mean = 0;
    const float* g = gains->gains.data_ptr<float>();
    for (uint64_t seed = 0; seed < 20; ++seed) mean += fly(g, 1'000'000 + seed) / 20;
    std::printf("generation %3ld: gains %5.2f %5.2f %5.2f, %.2f m from the wanted height\n", long(generation),
                double(g[0]), double(g[1]), double(g[2]), -mean);
    return -mean;
  };

  for (int64_t generation = 0; generation < 60; ++generation) {
    if (generation % 10 == 0) report(generation);
    const parl::Versioned weights(generation, es.get_weights());
    std::vector<parl::Future<std::vector<double>>> futures;
    for (size_t i = 0; i < testers.size(); ++i) {
      futures.push_back(testers[i].async()->test(weights, static_cast<int64_t>(i) * each, each));
    }
    std::vector<parl::PairReturns> returns;
    for (auto& future : futures) {
      const std::vector<double> results = future.get();
      for (size_t i = 0; i < results.size(); i += 2) returns.push_back({results[i], results[i + 1]});
    }
    es.update(returns, generation);
  }
  return report(60) < 1.5 ? 0 : 1;
}
