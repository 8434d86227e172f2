// Updates per second of SAC, TD3 and DDPG beside a plain libtorch loop (torch::nn, autograd, torch::optim::Adam), at
// the sizes of HalfCheetah: observation 17, action 6, two layers of 256, batch 256.
//
//   taskset -c 0 off_policy_bench [--rounds N] [--updates N] [sac|td3|ddpg ...]
// Both sides take turns, round by round, on one thread each (ours has a second one that draws samples: pin the program
// to one core). An update is everything that it takes: drawing a batch from 100,000 transitions, losses, gradients,
// Adam for all networks, target networks. Figures are medians over the rounds, of the process's CPU time and of wall
// time.
#include <fmt/format.h>
#include <time.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <string>

#include "parl/algorithms/ddpg.h"
#include "parl/algorithms/sac.h"
#include "parl/algorithms/td3.h"
#include "parl/models/relu_mlp.h"

namespace {

constexpr int64_t kObs = 17, kActions = 6, kHidden = 256, kBatch = 256, kStored = 100'000;
constexpr double kGamma = 0.99, kTau = 0.005, kLr = 3e-4;

// The plain loop.
class ByTorch {
 public:
  explicit ByTorch(const std::string& algorithm) : sac_(algorithm == "sac"), twin_(algorithm != "ddpg") {
    for (int i = 0; i < (twin_ ? 2 : 1); ++i) critics_.push_back(net(kObs + kActions, 1));
    for (const auto& critic : critics_) targets_.push_back(copy_of(critic, net(kObs + kActions, 1)));
    target_actor_ = copy_of(actor_, net(kObs, sac_ ? 2 * kActions : kActions));
    std::vector<at::Tensor> parameters;
    for (const auto& critic : critics_) {
      for (const auto& p : critic->parameters()) parameters.push_back(p);
    }
    critic_optimizer_ = std::make_unique<torch::optim::Adam>(parameters, kLr);
    actor_optimizer_ = std::make_unique<torch::optim::Adam>(actor_->parameters(), kLr);
    alpha_optimizer_ = std::make_unique<torch::optim::Adam>(std::vector<at::Tensor>{log_alpha_}, kLr);
  }

  void update() {
    const at::Tensor index = torch::randint(kStored, {kBatch}, at::kLong);
    const at::Tensor obs = obs_.index_select(0, index), next = next_.index_select(0, index);
    const at::Tensor action = action_.index_select(0, index), reward = reward_.index_select(0, index);
    const at::Tensor alive = alive_.index_select(0, index);
    at::Tensor y;
    {
      torch::NoGradGuard no_grad;
      at::Tensor log_prob, after;
      if (sac_) {
        std::tie(after, log_prob) = draw(next);
      } else {
        after = target_actor_->forward(next).tanh();
        if (twin_) after = (after + (torch::randn_like(after) * 0.2).clamp(-0.5, 0.5)).clamp(-1, 1);
      }
      at::Tensor q = value(targets_[0], next, after);
      if (twin_) q = at::min(q, value(targets_[1], next, after));
      if (sac_) q = q - log_alpha_.exp() * log_prob;
      y = reward + kGamma * alive * q;
    }
    at::Tensor loss = torch::mse_loss(value(critics_[0], obs, action), y);
    if (twin_) loss = loss + torch::mse_loss(value(critics_[1], obs, action), y);
    critic_optimizer_->zero_grad();
    loss.backward();
    critic_optimizer_->step();
    if (sac_ || !twin_ || ++updates_ % 2 == 0) update_actor(obs);
  }

 private:
  static torch::nn::Sequential net(int64_t in, int64_t out) {
    return torch::nn::Sequential(torch::nn::Linear(in, kHidden), torch::nn::ReLU(), torch::nn::Linear(kHidden, kHidden),
                                 torch::nn::ReLU(), torch::nn::Linear(kHidden, out));
  }
  static torch::nn::Sequential copy_of(const torch::nn::Sequential& from, torch::nn::Sequential to) {
    torch::NoGradGuard no_grad;
    const auto source = from->parameters();
    auto target = to->parameters();
    for (size_t i = 0; i < source.size(); ++i) target[i].copy_(source[i]);
    return to;
  }
  static at::Tensor value(torch::nn::Sequential critic, const at::Tensor& obs, const at::Tensor& action) {
    return critic->forward(torch::cat({obs, action}, 1)).squeeze(1);
  }
  std::pair<at::Tensor, at::Tensor> draw(const at::Tensor& obs) {
    const auto parts = actor_->forward(obs).chunk(2, 1);
    const at::Tensor log_std = parts[1].clamp(-20, 2), z = torch::randn_like(log_std);
    const at::Tensor u = parts[0] + log_std.exp() * z;
    const at::Tensor log_prob =
        -0.5 * z * z - log_std - 0.5 * std::log(2 * M_PI) - 2 * (std::log(2.0) - u - torch::softplus(-2 * u));
    return {u.tanh(), log_prob.sum(1)};
  }
  void update_actor(const at::Tensor& obs) {
    at::Tensor loss, log_prob;
    if (sac_) {
      at::Tensor action;
      std::tie(action, log_prob) = draw(obs);
      const at::Tensor q = at::min(value(critics_[0], obs, action), value(critics_[1], obs, action));
      loss = (log_alpha_.exp().detach() * log_prob - q).mean();
    } else {
      loss = -value(critics_[0], obs, actor_->forward(obs).tanh()).mean();
    }
    actor_optimizer_->zero_grad();
    loss.backward();
    actor_optimizer_->step();
    if (sac_) {
      alpha_optimizer_->zero_grad();
      (-log_alpha_ * (log_prob.detach() - kActions)).mean().backward();
      alpha_optimizer_->step();
    }
    torch::NoGradGuard no_grad;
    const auto move = [](const std::vector<at::Tensor>& from, std::vector<at::Tensor> to) {
      for (size_t i = 0; i < from.size(); ++i) to[i].mul_(1 - kTau).add_(from[i], kTau);
    };
    for (size_t i = 0; i < critics_.size(); ++i) move(critics_[i]->parameters(), targets_[i]->parameters());
    if (!sac_) move(actor_->parameters(), target_actor_->parameters());
  }

  bool sac_, twin_;
  int64_t updates_ = 0;
  at::Tensor obs_ = torch::randn({kStored, kObs}), next_ = torch::randn({kStored, kObs});
  at::Tensor action_ = torch::rand({kStored, kActions}) * 2 - 1, reward_ = torch::randn({kStored});
  at::Tensor alive_ = torch::rand({kStored}).gt(0.001).to(at::kFloat);
  torch::nn::Sequential actor_ = net(kObs, sac_ ? 2 * kActions : kActions), target_actor_{nullptr};
  std::vector<torch::nn::Sequential> critics_, targets_;
  at::Tensor log_alpha_ = torch::zeros({1}, at::TensorOptions().requires_grad(true));
  std::unique_ptr<torch::optim::Adam> critic_optimizer_, actor_optimizer_, alpha_optimizer_;
};

parl::Batch random_batch(int64_t unrolls, int64_t length) {
  parl::Batch b;
  b.obs = torch::randn({unrolls, length + 1, kObs});
  b.action = torch::rand({unrolls, length, kActions}) * 2 - 1;
  b.behaviour_logits = torch::zeros({unrolls, length, 2 * kActions});
  b.reward = torch::randn({unrolls, length});
  b.terminated = torch::rand({unrolls, length}) < 0.001;
  b.truncated = torch::zeros({unrolls, length}, at::kBool);
  return b;
}

constexpr int64_t kUnroll = 20;

// learn() on a batch of `updates` new steps: as many updates.
template <typename Class, typename Config>
std::function<void(int64_t)> ours() {
  parl::ModelSpec spec{{kObs}, parl::DType::kF32, 0, kActions};
  spec.action_low.assign(kActions, -1), spec.action_high.assign(kActions, 1);
  const auto policy = [](const parl::ModelSpec& s) { return std::make_shared<parl::ReluMlp>(s); };
  const auto critic = [](const parl::ModelSpec& s) { return std::make_shared<parl::MlpCritic>(s); };
  Config config;
  config.batch_size = config.train_ratio = kBatch;
  config.learn_start = config.replay_capacity = kStored;
  auto algorithm = std::make_shared<Class>(
      policy(spec), config,
      parl::make_off_policy_networks(policy, critic, spec, Class::kCritics, Class::kTargetPolicy));
  for (int64_t stored = 0; stored < kStored; stored += 100 * kUnroll) algorithm->learn(random_batch(100, kUnroll), 0);
  return [algorithm](int64_t updates) { algorithm->learn(random_batch(updates / kUnroll, kUnroll), 2 * kStored); };
}

double seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Rates {
  std::vector<double> cpu, wall;
  void measure(const std::function<void(int64_t)>& work, int64_t updates) {
    const double cpu_begin = seconds(CLOCK_PROCESS_CPUTIME_ID), begin = seconds(CLOCK_MONOTONIC);
    work(updates);
    cpu.push_back(static_cast<double>(updates) / (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_begin));
    wall.push_back(static_cast<double>(updates) / (seconds(CLOCK_MONOTONIC) - begin));
  }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void compare(const std::string& name, int rounds, int64_t updates) {
  const std::function<void(int64_t)> mine = name == "sac"   ? ours<parl::Sac, parl::SacConfig>()
                                            : name == "td3" ? ours<parl::Td3, parl::Td3Config>()
                                                            : ours<parl::Ddpg, parl::DdpgConfig>();
  ByTorch plain(name);
  const auto theirs = [&plain](int64_t n) {
    for (int64_t i = 0; i < n; ++i) plain.update();
  };
  mine(kUnroll), theirs(kUnroll);
  Rates a, b;
  for (int round = 0; round < rounds; ++round) {
    a.measure(mine, updates);
    b.measure(theirs, updates);
  }
  fmt::print(
      "{:<5} ours {:7.1f} libtorch {:7.1f} ratio {:.2f} updates/s of CPU time | wall: ours {:7.1f} libtorch {:7.1f} "
      "ratio {:.2f}\n",
      name, median(a.cpu), median(b.cpu), median(a.cpu) / median(b.cpu), median(a.wall), median(b.wall),
      median(a.wall) / median(b.wall));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  torch::manual_seed(1);
  int rounds = 7;
  int64_t updates = 200;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--rounds" && i + 1 < argc) {
      rounds = std::stoi(argv[++i]);
    } else if (word == "--updates" && i + 1 < argc) {
      updates = std::max(kUnroll, std::stol(argv[++i]) / kUnroll * kUnroll);
    } else if (word == "sac" || word == "td3" || word == "ddpg") {
      names.push_back(word);
    } else {
      fmt::print(stderr, "usage: off_policy_bench [--rounds N] [--updates N] [sac|td3|ddpg ...]\n");
      return 2;
    }
  }
  if (names.empty()) names = {"sac", "td3", "ddpg"};
  std::string load;
  std::getline(std::ifstream("/proc/loadavg"), load);
  fmt::print("{} rounds of {} updates in turns; load {}\n", rounds, updates, load);
  for (const std::string& name : names) compare(name, rounds, updates);
}
