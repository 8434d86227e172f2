// A2C with the whole loop written out: weights go to remote actors, all of them play, their rollouts come back, one
// update is made. parl::train() does this and much more; write your own where you want something else.
//   a2c                             actors in threads
//   a2c --parl-engine process       in processes; inline and tcp://host:port as everywhere
// CartPole until the mean of 100 episodes reaches 195; a second or two.
#include <torch/torch.h>

#include <cstdio>
#include <deque>
#include <numeric>

#include "parl/agent/agent.h"
#include "parl/algorithms/a2c.h"
#include "parl/data/batch_buffer.h"
#include "parl/remote/remote.h"
#include "parl/train/actor.h"
#include "parl/train/evaluate.h"
#include "parl/train/program.h"

int main(int argc, char** argv) {
  parl::RemoteManager manager(argc, argv);
  torch::set_num_threads(1);  // the actors are what runs in parallel; on small networks torch's threads would only wait

  // The algorithm, around a network that fits the environment.
  const auto env = parl::program().envs.make({.id = "CartPole-v1"});
  torch::manual_seed(1);
  parl::A2cConfig settings;
  settings.lambda = 0.95;  // GAE
  settings.optimizer = parl::OptimizerKind::kAdam;
  settings.lr = 2e-3;
  settings.value_cost = 0.01;  // returns of hundreds: else the value's gradient drowns the policy's
  settings.normalize_advantage = true;
  parl::Agent agent(
      std::make_shared<parl::A2c>(parl::program().models.make("mlp", parl::model_spec_of(env->spec())), settings));

  // Four actors of four environments each, with a copy of the network and random streams of their own.
  const auto actors = manager.create_each<parl::Actor>(4, [](int i) {
    parl::ActorConfig config{.env = "CartPole-v1", .model = "mlp", .algorithm = "a2c"};
    config.actor = i;
    config.envs = 4;
    config.first_env = 4 * i;
    config.length = 8;  // steps of each environment per rollout
    config.seed = 1;
    return config;
  });
  std::printf("4 actors x 4 environments (engine %s), 8 steps each, then one update from all of them\n",
              manager.engine().c_str());

  parl::BatchBuffer buffer;
  std::deque<double> returns;  // of the last 100 episodes
  double mean = 0;
  int64_t steps = 0, updates = 0;
  while (mean < 195 && steps < 400'000) {
    // The weights are encoded once for all; every actor plays at the same time.
    auto futures = parl::broadcast(actors, &parl::Actor::sample, parl::Versioned(updates, agent.get_weights()));
    std::vector<parl::Rollout> rollouts;
    for (auto& future : futures) rollouts.push_back(future.get());  // waits for the slowest: that is the A2 in A2C

    const parl::Batch batch = buffer.assemble(rollouts);
    const parl::LearnStats stats = agent.learn(batch, steps);
    steps += batch.steps();
    ++updates;

    for (const parl::Rollout& rollout : rollouts) {
      for (const parl::Episode& episode : rollout.episodes) returns.push_back(episode.raw_return);
    }
    while (returns.size() > 100) returns.pop_front();
    if (returns.size() == 100) mean = std::accumulate(returns.begin(), returns.end(), 0.0) / 100;
    if (updates % 100 == 0) {
      std::printf("%6ld steps: mean return %6.1f, %s %.3f\n", long(steps), mean, stats[0].first.c_str(),
                  stats[0].second);
    }
  }
  const double greedy = parl::evaluate(agent.algorithm(), {.env = "CartPole-v1", .episodes = 20}).return_mean;
  std::printf("%ld steps, %ld updates: mean return %.1f, playing greedily %.1f\n", long(steps), long(updates), mean,
              greedy);
  return mean >= 195 ? 0 : 1;
}
