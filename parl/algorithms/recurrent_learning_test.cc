// The actor-critic family over networks with a memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "parl/agent/masked_model.h"
#include "parl/agent/recurrent.h"
#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/a2c.h"
#include "parl/algorithms/actor_critic.h"
#include "parl/algorithms/appo.h"
#include "parl/algorithms/ga3c.h"
#include "parl/algorithms/impala.h"
#include "parl/algorithms/learn_stat.h"
#include "parl/algorithms/ppo.h"
#include "parl/algorithms/reference_file.h"
#include "parl/core/error_of.h"
#include "parl/models/dict_net.h"
#include "parl/models/lstm.h"
#include "parl/models/mlp.h"

namespace parl {
namespace {

constexpr int64_t kUnits = 6;

std::shared_ptr<Model> make_lstm(bool gaussian) {
  ModelSpec spec{{5}, DType::kF32, 3, 0};
  if (gaussian) spec.num_actions = 0, spec.action_size = 2, spec.action_low = {-1, -1}, spec.action_high = {1, 1};
  return std::make_shared<LstmModel>(spec, std::make_shared<Mlp>(trunk_spec(spec), std::vector<int64_t>{8}), 8, kUnits);
}

// A network of a user's own: one function.
struct Gru : RecurrentModel {
  torch::nn::GRUCell cell{5, 7};
  torch::nn::Linear policy{7, 3}, value{7, 1};
  Gru() {
    register_module("cell", cell);
    register_module("policy", policy);
    register_module("value", value);
  }
  int64_t state_size() const override { return 7; }
  StepOutput step(const at::Tensor& obs, const at::Tensor& state) override {
    const at::Tensor h = cell(obs, state);
    return {{policy(h) * 3, value(h).squeeze(-1)}, h};
  }
};

// ---------------------------------------------------------------------------------------------- against PyTorch

struct Reference : ReferenceFile {
  Reference() : ReferenceFile("recurrent"), cases(nlohmann::json::parse(ReferenceFile::cases)) {}
  nlohmann::json cases;
};

void expect_case(const Reference& reference, const std::string& name, int64_t threads, int64_t micro_batch) {
  SCOPED_TRACE(name + " threads " + std::to_string(threads));
  ActorCriticConfig config = actor_critic_config_of(reference.cases[name].dump());
  config.learner_threads = threads, config.micro_batch = micro_batch;
  const bool gaussian = reference.cases[name]["gaussian"];
  const auto model = make_lstm(gaussian);
  reference.set_initial(*model, name);
  ActorCritic algorithm(model, config, [gaussian] { return make_lstm(gaussian); });
  for (int64_t step = 0; step < 3; ++step) {
    const LearnStats stats = algorithm.learn(reference.batch(name + "/" + std::to_string(step) + "/"), 0);
    reference.expect_update(name, step, stats, *model, config.max_grad_norm, step == 0 && config.epochs == 1);
  }
}

TEST(Recurrent, LearnEqualsPyTorch) {
  const Reference reference;
  ASSERT_EQ(reference.cases.size(), 5u);
  for (const auto& item : reference.cases.items()) {
    expect_case(reference, item.key(), 1, 0);
    expect_case(reference, item.key(), 1, 8);  // an unroll at a time
    expect_case(reference, item.key(), 3, 16);
  }
}

// -------------------------------------------------------------------------------------------------- other promises

// A batch that `actor` acted in, with ends of every kind, from memories that are not zero.
Batch played(Algorithm& actor, int64_t unrolls, int64_t length, uint64_t seed, const at::Tensor& obs = {}) {
  torch::manual_seed(seed);
  Batch b;
  b.obs = obs.defined() ? obs : torch::randn({unrolls, length + 1, 5});
  b.state = torch::randn({unrolls, actor.model().recurrent()->state_size()}) * 0.5;
  b.terminated = torch::rand({unrolls, length}) < 0.1;
  b.truncated = torch::rand({unrolls, length}) < 0.1;
  std::vector<at::Tensor> actions, logits;
  at::Tensor memory = b.state;
  for (int64_t t = 0; t < length; ++t) {
    const ActOutput out = actor.act({b.obs.select(1, t), torch::rand({unrolls}), memory});
    actions.push_back(out.action), logits.push_back(out.logits);
    const at::Tensor ended = b.terminated.select(1, t).logical_or(b.truncated.select(1, t));
    memory = out.state * ended.logical_not().unsqueeze(1);
  }
  b.action = torch::stack(actions, 1), b.behaviour_logits = torch::stack(logits, 1);
  b.reward = torch::randn({unrolls, length});
  b.final_index = b.truncated.logical_and(b.terminated.logical_not()).flatten().nonzero().flatten();
  b.final_obs = torch::randn({b.final_index.numel(), 5});
  b.version = torch::zeros({unrolls}, at::kLong);
  return b;
}

std::shared_ptr<Model> decided_lstm() {  // far from uniform, so that equal ratios mean something
  const auto model = make_lstm(false);
  const torch::NoGradGuard no_grad;
  for (const auto& item : model->named_parameters()) {
    if (item.key() == "policy.weight") item.value().mul_(300);
  }
  return model;
}

TEST(Recurrent, RatioIsOneAtLagZero) {
  torch::manual_seed(3);
  for (const std::shared_ptr<Model>& model : {decided_lstm(), std::shared_ptr<Model>(std::make_shared<Gru>())}) {
    for (const bool recompute : {true, false}) {
      ActorCriticConfig config;
      config.recompute_targets = recompute;
      config.lr = 0;
      ActorCritic algorithm(model, config);
      Batch batch = played(algorithm, 6, 20, 11);
      const LearnStats stats = algorithm.learn(batch, 0);
      EXPECT_LT(stat(stats, "rho_max_deviation"), 1e-4);
      EXPECT_LT(stat(stats, "kl"), 1e-6);
      batch.state = torch::zeros_like(batch.state);
      EXPECT_GT(stat(algorithm.learn(batch, 0), "rho_max_deviation"), 0.01);  // the memory matters
    }
  }
}

TEST(Recurrent, ContinuesToTheBit) {
  PpoConfig config;
  config.minibatch_of = MinibatchOf::kUnrolls;
  torch::manual_seed(1);
  Ppo first(make_lstm(false), config), second(make_lstm(false), config);
  first.learn(played(first, 8, 6, 1), 100);
  second.set_weights(first.get_weights());
  second.set_state(first.get_state());
  const Batch batch = played(first, 8, 6, 2);
  EXPECT_EQ(first.learn(batch, 200), second.learn(batch, 200));
  for (size_t i = 0; i < first.get_weights().entries.size(); ++i) {
    EXPECT_TRUE(first.get_weights().entries[i].array == second.get_weights().entries[i].array);
  }
}

// Where nobody says what minibatches are of, the network does.
TEST(Recurrent, AutoIsUnrollsForAMemoryAndElseSteps) {
  torch::manual_seed(1);
  PpoConfig open, unrolls;
  EXPECT_EQ(open.minibatch_of, MinibatchOf::kAuto);
  unrolls.minibatch_of = MinibatchOf::kUnrolls;
  Ppo first(make_lstm(false), open), second(make_lstm(false), unrolls);
  second.set_weights(first.get_weights());
  const Batch batch = played(first, 8, 6, 1);
  EXPECT_EQ(first.learn(batch, 0), second.learn(batch, 0));
  open.settle(first.model());
  EXPECT_EQ(open.minibatch_of, MinibatchOf::kUnrolls);
  Mlp mlp(ModelSpec{{5}, DType::kF32, 3, 0});
  PpoConfig steps;
  steps.settle(mlp);
  EXPECT_EQ(steps.minibatch_of, MinibatchOf::kSteps);
  unrolls.settle(mlp);
  EXPECT_EQ(unrolls.minibatch_of, MinibatchOf::kUnrolls);  // what was said stays
}

// ------------------------------------------------------------------------------------------------------ with a mask

// Five quantities and a mask of three actions.
ModelSpec masked_spec() {
  ModelSpec spec{{24}, DType::kU8, 3, 0};
  spec.parts = {{"x", DType::kF32, {5}, 0}, {"action_mask", DType::kU8, {3}, 20}};
  return spec;
}

// The unmasked network, step by step, and the mask by the bytes.
struct ByHand : RecurrentModel {
  std::shared_ptr<Model> inner;
  explicit ByHand(std::shared_ptr<Model> network) : inner(std::move(network)) { register_module("inner", inner); }
  int64_t state_size() const override { return inner->recurrent()->state_size(); }
  StepOutput step(const at::Tensor& obs, const at::Tensor& state) override {
    StepOutput out = inner->recurrent()->step(obs, state);
    out.output.logits = torch::where(obs.narrow(1, 20, 3) > 0, out.output.logits, torch::full({}, -1e9));
    return out;
  }
};

std::shared_ptr<Model> unmasked_lstm() {
  const ModelSpec spec = masked_spec();
  return std::make_shared<LstmModel>(spec, std::make_shared<DictNet>(trunk_spec(spec)), DictNet::kFeatures, kUnits);
}

// With observations of parts; of every mask at least one action is legal.
at::Tensor masked_rows(const at::Tensor& x) {
  const at::Tensor rows = torch::zeros({x.size(0), x.size(1), 24}, at::kByte);
  rows.narrow(2, 0, 20).copy_(x.contiguous().view(at::kByte));
  at::Tensor legal = torch::rand({x.size(0), x.size(1), 3}) < 0.6;
  legal.select(2, 0).logical_or_(legal.any(2).logical_not());
  rows.narrow(2, 20, 3).copy_(legal);
  return rows;
}

Batch played_masked(Algorithm& actor, int64_t unrolls, int64_t length, uint64_t seed) {
  torch::manual_seed(seed);
  const at::Tensor obs = masked_rows(torch::randn({unrolls, length + 1, 5}));
  Batch b = played(actor, unrolls, length, seed, obs);
  b.final_obs = masked_rows(torch::randn({b.final_index.numel(), 1, 5})).squeeze(1);
  const at::Tensor taken = b.obs.narrow(1, 0, length).narrow(2, 20, 3).gather(2, b.action.unsqueeze(2));
  EXPECT_TRUE(taken.all().item<bool>()) << "a forbidden action was taken";
  return b;
}

class MaskedMemory : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() { at::set_num_threads(1); }  // as in a run; more wait for each other on a busy machine
  static std::unique_ptr<ActorCritic> make(std::shared_ptr<Model> model) {
    const std::string name = GetParam();
    if (name == "impala") return std::make_unique<Impala>(std::move(model));
    if (name == "appo") return std::make_unique<Appo>(std::move(model));
    if (name == "a2c") return std::make_unique<A2c>(std::move(model));
    if (name == "ga3c") return std::make_unique<Ga3c>(std::move(model));
    return std::make_unique<Ppo>(std::move(model));
  }
};

// Learning through the mask is learning with logits that are masked by hand, over batches with ends of both kinds.
TEST_P(MaskedMemory, LearnsWhatAMaskByHandLearns) {
  torch::manual_seed(6);
  const auto plain = unmasked_lstm(), hand_plain = unmasked_lstm();
  const auto model = masked(plain, masked_spec());
  hand_plain->set_weights(plain->get_weights());
  const auto learner = make(model), hand = make(std::make_shared<ByHand>(hand_plain));
  const auto forbidden = [](const Batch& b) { return (b.obs.narrow(2, 20, 3) == 0).sum().item<int64_t>(); };
  for (uint64_t update = 0; update < 3; ++update) {
    const Batch batch = played_masked(*learner, 6, 9, 10 + update);
    EXPECT_GT(forbidden(batch), 40);
    EXPECT_GT(batch.final_index.numel(), 0);
    const LearnStats a = learner->learn(batch, 0), b = hand->learn(batch, 0);
    for (const char* name : {"loss", "entropy", "grad_norm", "value_loss"}) {
      EXPECT_NEAR(stat(a, name), stat(b, name), 1e-4 * (1 + std::abs(stat(b, name)))) << name;
    }
    if (stat(a, "passes") == 1) {
      EXPECT_LT(stat(a, "rho_max_deviation"), 1e-4);  // the policy that acted
    }
  }
  const Weights a = plain->get_weights(), b = hand_plain->get_weights();
  for (size_t i = 0; i < a.entries.size(); ++i) {
    EXPECT_TRUE(at::allclose(tensor_view(a.entries[i].array), tensor_view(b.entries[i].array), 1e-3, 1e-4))
        << a.entries[i].name;
  }
}

TEST_P(MaskedMemory, ContinuesToTheBit) {
  torch::manual_seed(7);
  const auto first = make(masked(unmasked_lstm(), masked_spec())),
             second = make(masked(unmasked_lstm(), masked_spec()));
  first->learn(played_masked(*first, 8, 6, 1), 100);
  second->set_weights(first->get_weights());
  second->set_state(first->get_state());
  const Batch batch = played_masked(*first, 8, 6, 2);
  EXPECT_EQ(first->learn(batch, 200), second->learn(batch, 200));
  const Weights a = first->get_weights(), b = second->get_weights();
  for (size_t i = 0; i < a.entries.size(); ++i) EXPECT_TRUE(a.entries[i].array == b.entries[i].array);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, MaskedMemory, ::testing::Values("impala", "appo", "a2c", "ga3c", "ppo"),
                         [](const auto& info) { return info.param; });

TEST(Recurrent, ErrorsSayWhatToDo) {
  PpoConfig steps;
  steps.minibatch_of = MinibatchOf::kSteps;
  EXPECT_THAT(error_of([&] { Ppo(make_lstm(false), steps); }), testing::HasSubstr("--minibatch-of unrolls"));
  Impala impala(make_lstm(false));
  EXPECT_THAT(error_of([&] { impala.sample(torch::randn({2, 5}), torch::rand({2})); }), testing::HasSubstr("state"));
  Batch batch = played(impala, 3, 4, 1);
  batch.state = torch::zeros({3, 5});
  EXPECT_THAT(error_of([&] { impala.learn(batch, 0); }), testing::HasSubstr("one of 5"));
  batch.state = at::Tensor();
  EXPECT_THAT(error_of([&] { impala.learn(batch, 0); }), testing::HasSubstr("has none"));
}

}  // namespace
}  // namespace parl
