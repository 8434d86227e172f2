// What acting and learning cost per agent step, on one thread: the hand-written passes beside torch's operators.
//
//   network_bench [model ...]       (default: atari42 nature)
// Both sides take turns, round by round; figures are medians of the thread's CPU time over 7 rounds, in microseconds
// per agent step. Acting is Impala::sample; learning is the whole Impala::learn (forward, V-trace, backward, clipping,
// Adam).
#include <fmt/format.h>
#include <time.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>

#include "parl/algorithms/impala.h"
#include "parl/models/cnn.h"
#include "parl/models/registry.h"

namespace {

// The same network by torch's operators and autograd.
struct ByTorch : parl::Model {
  std::shared_ptr<parl::Cnn> net;
  explicit ByTorch(std::shared_ptr<parl::Cnn> cnn) : net(std::move(cnn)) { register_module("net", net); }
  parl::PolicyValue forward(const at::Tensor& obs) override { return net->forward_with_torch(obs); }
};

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double microseconds(const std::function<void()>& f, int repeats) {
  const double begin = cpu_seconds();
  for (int i = 0; i < repeats; ++i) f();
  return (cpu_seconds() - begin) / repeats * 1e6;
}

// Medians of both, measured in turns.
std::pair<double, double> paired(const std::function<void()>& a, const std::function<void()>& b, int repeats) {
  std::vector<double> as, bs;
  a(), b();
  for (int round = 0; round < 7; ++round) {
    as.push_back(microseconds(a, repeats));
    bs.push_back(microseconds(b, repeats));
  }
  std::sort(as.begin(), as.end()), std::sort(bs.begin(), bs.end());
  return {as[3], bs[3]};
}

parl::Batch make_batch(const parl::ModelSpec& spec, int64_t b, int64_t t) {
  parl::Batch batch;
  batch.obs = torch::randint(0, 256, {b, t + 1, spec.obs_shape[0], spec.obs_shape[1], spec.obs_shape[2]}, at::kByte);
  batch.behaviour_logits = torch::zeros({b, t, spec.num_actions});
  batch.action = torch::randint(0, spec.num_actions, {b, t}, at::kLong);
  batch.reward = torch::randn({b, t}) * 0.1;
  batch.terminated = torch::rand({b, t}) < 0.01;
  batch.truncated = torch::zeros({b, t}, at::kBool);
  return batch;
}

void report(const char* what, const std::string& model, int64_t n, std::pair<double, double> us) {
  fmt::print("{:<5} {:<15} batch {:>5}: hand-written {:7.1f} us/step, torch {:7.1f} us/step, ratio {:.2f}\n", what,
             model, n, us.first / static_cast<double>(n), us.second / static_cast<double>(n), us.second / us.first);
  std::fflush(stdout);
}

void run(const std::string& name) {
  const int64_t size = name == "atari42" ? 42 : 84;
  const parl::ModelSpec spec{{size, size, 4}, parl::DType::kU8, 6, 0};
  parl::ImpalaConfig config;
  config.optimizer = parl::OptimizerKind::kAdam;
  config.lr = 1e-5;
  auto net = std::dynamic_pointer_cast<parl::Cnn>(parl::builtin_models().make(name, spec));
  auto twin = std::dynamic_pointer_cast<parl::Cnn>(parl::builtin_models().make(name, spec));
  parl::Impala hand(net, config), torch(std::make_shared<ByTorch>(twin), config);
  for (int64_t n : {16, 32, 64}) {
    const at::Tensor obs = torch::randint(0, 256, {n, size, size, 4}, at::kByte), u = torch::rand({n});
    report("act", name, n,
           paired([&] { hand.sample(obs, u); }, [&] { torch.sample(obs, u); }, static_cast<int>(512 / n)));
  }
  for (auto [b, t] : {std::pair<int64_t, int64_t>{8, 32}, {20, 50}}) {
    const parl::Batch batch = make_batch(spec, b, t);
    report("learn", name, b * t,
           paired([&] { hand.learn(batch, 0); }, [&] { torch.learn(batch, 0); }, static_cast<int>(1000 / (b * t))));
  }
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  torch::manual_seed(1);
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty()) names = {"atari42", "nature"};
  for (const std::string& name : names) run(name);
}
