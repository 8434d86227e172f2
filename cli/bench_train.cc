// parl bench train: what training could reach on these cores, and what it reaches, measured in one run.
//
// Environment (random actions), acting and learning are timed alone, one thread each, as one actor and one learner of
// the given settings do them; the parts alternate and the median of the rounds counts. bound = cores / (env + act +
// learn); learn holds all passes over a batch. Then the same settings train for --train-seconds, the first quarter of
// it not counted.
//
// --json: {"env", "model", "engine", "cores", "env_us", "act_us", "learn_us" (per agent step), "bound_steps_per_s",
// "env_steps_per_s" (environments alone, one thread per core), "train_steps_per_s", "ratio_to_bound"}.
#include <sched.h>
#include <torch/torch.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <thread>

#include "cli/command.h"
#include "cli/train_options.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/clock.h"
#include "parl/core/log.h"
#include "parl/core/rng.h"
#include "parl/data/batch_buffer.h"
#include "parl/env/vector_env.h"
#include "parl/models/registry.h"
#include "parl/train/actor.h"
#include "parl/train/program.h"
#include "parl/train/step_envs.h"
#include "parl/train/trainer.h"

namespace parl::cli {
namespace {

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                     : static_cast<int>(std::thread::hardware_concurrency());
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Microseconds per agent step of `work`, which does `steps` of them at a call.
template <typename F>
double time_us(double seconds, int64_t steps, F&& work) {
  const auto start = Clock::now();
  int64_t calls = 0;
  do {
    work();
    ++calls;
  } while (seconds_since(start) < seconds);
  return 1e6 * seconds_since(start) / static_cast<double>(calls * steps);
}

// Environments with random actions, as one actor steps them.
class EnvPart {
 public:
  EnvPart(const TrainConfig& c, int index)
      : count_(static_cast<int>(c.envs_per_actor)),
        envs_({.count = count_,
               .seed = static_cast<uint64_t>(c.seed),
               .first_index = index * count_,
               .threads = static_cast<int>(c.pool_threads)},
              program().envs.vector_factory({.id = c.env, .args = c.env_args}, c.envs_per_actor)),
        random_(static_cast<uint64_t>(c.seed), static_cast<uint64_t>(index)),
        obs_(static_cast<size_t>(count_) * envs_.spec().observation.bytes()),
        actions_(static_cast<size_t>(count_)),
        results_(static_cast<size_t>(count_)) {
    envs_.reset([this](int i) { return place(i); });
  }
  void step() {
    const auto* discrete = std::get_if<Discrete>(&envs_.spec().action);
    PARL_CHECK(discrete, "bench train measures environments with a finite set of actions; '{}' has continuous ones",
               envs_.spec().id);
    const auto n = static_cast<float>(discrete->n);
    for (int64_t& action : actions_) action = static_cast<int64_t>(random_.uniform() * n);
    envs_.step(
        actions_, {}, [this](int i) { return place(i); }, results_);
    envs_.take_episodes(episodes_);
    episodes_.clear();
  }
  int count() const { return count_; }

 private:
  std::span<std::byte> place(int i) {
    const size_t bytes = envs_.spec().observation.bytes();
    return std::span(obs_).subspan(static_cast<size_t>(i) * bytes, bytes);
  }
  int count_;
  VectorEnv envs_;
  CounterRng random_;
  std::vector<std::byte> obs_;
  std::vector<int64_t> actions_;
  std::vector<StepResult> results_;
  std::vector<Episode> episodes_;
};

struct Parts {
  double env_us = 0, act_us = 0, learn_us = 0;
};

std::vector<Rollout> collect(const TrainConfig& c, const Weights& weights) {
  std::vector<Rollout> rollouts;
  for (int64_t i = 0; i < c.rollouts_per_batch(); ++i) {
    rollouts.push_back(Actor(actor_config(c, i)).sample({0, weights}));
  }
  return rollouts;
}

Parts measure_parts(const TrainConfig& c, double seconds, int rounds) {
  EnvPart envs(c, 0);
  const auto probe = program().envs.make({.id = c.env, .args = c.env_args});
  const ModelSpec spec = model_spec_of(probe->spec());
  const auto learner = make_learner(c, probe->spec());
  const auto actor = make_actor(c.algorithm, c.settings, c.network(), c.policies, probe->spec());
  const std::vector<Rollout> rollouts = collect(c, learner->get_weights());
  BatchBuffer buffer;
  const Batch batch = buffer.assemble(rollouts);
  const at::Tensor obs = tensor_view(rollouts[0].obs);
  const at::Tensor uniforms = torch::rand({c.envs_per_actor});

  std::vector<double> env, act, learn;
  int64_t t = 0, steps = 0;
  at::Tensor memory = make_memory(actor->model(), c.envs_per_actor);
  const auto act_once = [&] {
    memory = actor->act({obs.select(1, t++ % (c.rollout_length + 1)), uniforms, memory}).state;
  };
  const auto learn_once = [&] { learner->learn(batch, steps += batch.steps()); };
  for (int i = 0; i < 20; ++i) {  // warm caches and allocators
    envs.step();
    act_once();
  }
  learn_once();
  for (int round = 0; round < rounds; ++round) {
    env.push_back(time_us(seconds, envs.count(), [&] { envs.step(); }));
    act.push_back(time_us(seconds, c.envs_per_actor, act_once));
    learn.push_back(time_us(seconds, batch.steps(), learn_once));
  }
  return {median(env), median(act), median(learn)};
}

// Environments alone, one thread per core.
double env_rate(const TrainConfig& c, int threads, double seconds) {
  std::vector<double> rates(static_cast<size_t>(threads));
  std::vector<std::thread> team;
  for (int i = 0; i < threads; ++i) {
    team.emplace_back([&, i] {
      EnvPart envs(c, i);
      for (int k = 0; k < 20; ++k) envs.step();
      rates[static_cast<size_t>(i)] = 1e6 / time_us(seconds, envs.count(), [&] { envs.step(); });
    });
  }
  double total = 0;
  for (int i = 0; i < threads; ++i) {
    team[static_cast<size_t>(i)].join();
    total += rates[static_cast<size_t>(i)];
  }
  return total;
}

double train_rate(TrainConfig c, double seconds) {
  const std::string folder =
      fmt::format("{}/parl-bench-{}", std::filesystem::temp_directory_path().string(), ::getpid());
  c.run = folder;
  c.steps = int64_t{1} << 60;
  c.until_seconds = seconds;
  c.until_return.reset();
  c.eval_steps = 0;
  int64_t first_steps = 0, last_steps = 0;
  Clock::time_point first{}, last{};
  const auto start = Clock::now();
  TrainHooks hooks;
  hooks.stop = &stop_on_signals();
  hooks.show_status = false;
  hooks.on_update = [&](const UpdateInfo& info) {
    last = Clock::now();
    last_steps = info.steps;
    if (first_steps == 0 && seconds_since(start) >= seconds / 4) {
      first = last;
      first_steps = info.steps;
    }
  };
  try {
    train(c, hooks);
  } catch (...) {
    std::filesystem::remove_all(folder);
    throw;
  }
  std::filesystem::remove_all(folder);
  const double counted = std::chrono::duration<double>(last - first).count();
  PARL_CHECK(first_steps > 0 && last_steps > first_steps,
             "--train-seconds {} is too short: fewer than two updates were counted", seconds);
  return static_cast<double>(last_steps - first_steps) / counted;
}

}  // namespace

int bench_train(const Arguments& args) {
  CLI::App app("Environment, acting and learning alone, the bound that follows, and training itself.",
               "parl bench train");
  TrainOptions options(app);
  double part_seconds = 3, train_seconds = 30;
  int rounds = 3;
  bool json = false;
  app.add_option("--part-seconds", part_seconds, "for each part, each round")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", rounds, "of which the median counts")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--train-seconds", train_seconds, "of training")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_flag("--json", json, kJsonHelp);
  if (!parse(app, args)) return kSuccess;
  if (options.help()) {
    std::cout << options.help_text() << std::flush;
    return kSuccess;
  }
  TrainConfig config = options.resolve();
  config.check();
  at::set_num_threads(1);
  if (config.model == "auto") {
    const auto env = program().envs.make({.id = config.env, .args = config.env_args});
    config.model = default_model(program().algorithm(config.algorithm), model_spec_of(env->spec()));
  }

  const int cores = usable_cores();
  const Parts parts = measure_parts(config, part_seconds, rounds);
  const double bound = cores * 1e6 / (parts.env_us + parts.act_us + parts.learn_us);
  const double env_steps = env_rate(config, cores, part_seconds);
  const double train_steps = train_rate(config, train_seconds);
  std::cout << fmt::format(
      "{} {} {}, engine {}, {} actors x {} environments, {} cores\n"
      "microseconds per agent step, one thread: env {:.1f}, act {:.1f}, learn {:.1f}\n"
      "bound {:.0f} steps/s; environments alone {:.0f}; training {:.0f} = {:.1f} % of the bound\n",
      config.algorithm, config.env, config.model, config.engine, config.actors, config.envs_per_actor, cores,
      parts.env_us, parts.act_us, parts.learn_us, bound, env_steps, train_steps, 100 * train_steps / bound);
  std::cout << std::flush;
  if (json) {
    JsonLine line;
    line.add("env", config.env).add("model", config.model).add("engine", config.engine).add("cores", cores);
    line.add("env_us", parts.env_us)
        .add("act_us", parts.act_us)
        .add("learn_us", parts.learn_us)
        .add("bound_steps_per_s", bound);
    line.add("env_steps_per_s", env_steps)
        .add("train_steps_per_s", train_steps)
        .add("ratio_to_bound", train_steps / bound)
        .print();
  }
  return kSuccess;
}

}  // namespace parl::cli
