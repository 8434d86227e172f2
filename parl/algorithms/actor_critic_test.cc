#include "parl/algorithms/actor_critic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "parl/agent/nonfinite.h"
#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/a2c.h"
#include "parl/algorithms/impala.h"
#include "parl/algorithms/learn_stat.h"
#include "parl/algorithms/ppo.h"
#include "parl/algorithms/reference_file.h"
#include "parl/core/check.h"
#include "parl/models/mlp.h"
#include "parl/models/registry.h"

namespace parl {
namespace {

const ModelSpec kSpec{{5}, DType::kF32, 3, 0};

std::shared_ptr<Model> make_gaussian_mlp() {
  ModelSpec spec{{5}, DType::kF32, 0, 2};
  spec.action_low = {-1, -1}, spec.action_high = {1, 1};
  return std::make_shared<Mlp>(spec, std::vector<int64_t>{8});
}

std::shared_ptr<Model> make_mlp() { return std::make_shared<Mlp>(kSpec, std::vector<int64_t>{8}); }

// A random batch, on-policy for `actor` when given, with ends of every kind.
Batch make_batch(const ModelSpec& spec, int64_t b, int64_t t, uint64_t seed, Algorithm* actor = nullptr) {
  torch::manual_seed(seed);
  Batch batch;
  std::vector<int64_t> shape = spec.obs_shape;
  shape.insert(shape.begin(), {b, t + 1});
  auto random_obs = [&](std::vector<int64_t> sizes) {
    return spec.obs_dtype == DType::kU8 ? torch::randint(0, 256, sizes, at::kByte) : torch::randn(sizes);
  };
  batch.obs = random_obs(shape);
  batch.behaviour_logits = torch::randn({b, t, spec.num_actions});
  batch.action = torch::randint(0, spec.num_actions, {b, t}, at::kLong);
  if (actor) {
    for (int64_t k = 0; k < t; ++k) {
      const ActOutput out = actor->sample(batch.obs.select(1, k).contiguous(), torch::rand({b}));
      batch.behaviour_logits.select(1, k).copy_(out.logits);
      batch.action.select(1, k).copy_(out.action);
    }
  }
  batch.reward = torch::randn({b, t});
  batch.terminated = torch::rand({b, t}) < 0.1;
  batch.truncated = torch::rand({b, t}) < 0.1;
  batch.final_index = batch.truncated.logical_and(batch.terminated.logical_not()).flatten().nonzero().flatten();
  shape.erase(shape.begin(), shape.begin() + 2);
  shape.insert(shape.begin(), batch.final_index.numel());
  batch.final_obs = random_obs(shape);
  batch.version = torch::zeros({b}, at::kLong);
  return batch;
}

// ---------------------------------------------------------------------------------------------- against PyTorch

struct Reference : ReferenceFile {
  Reference() : ReferenceFile("actor_critic"), cases(nlohmann::json::parse(ReferenceFile::cases)) {}
  nlohmann::json cases;
};

void expect_case(const Reference& reference, const std::string& name, int64_t threads, int64_t micro_batch,
                 MinibatchOf of = MinibatchOf::kUnrolls) {
  SCOPED_TRACE(name + " threads " + std::to_string(threads));
  ActorCriticConfig config = actor_critic_config_of(reference.cases[name].dump());
  config.minibatch_of = of;
  config.learner_threads = threads;
  config.micro_batch = micro_batch;
  const ReplicaFactory make = reference.cases[name]["gaussian"] ? make_gaussian_mlp : make_mlp;
  auto model = make();
  reference.set_initial(*model, name);
  ActorCritic algorithm(model, config, make);
  for (int64_t step = 0; step < 3; ++step) {
    const LearnStats stats = algorithm.learn(reference.batch(name + "/" + std::to_string(step) + "/"), 0);
    reference.expect_update(name, step, stats, *model, config.max_grad_norm, step == 0 && config.epochs == 1);
  }
}

TEST(ActorCritic, EqualsPyTorch) {
  const Reference reference;
  ASSERT_EQ(reference.cases.size(), 12u);
  for (const auto& item : reference.cases.items()) expect_case(reference, item.key(), 1, 0);
}

TEST(ActorCritic, EqualsPyTorchInPiecesAndThreads) {
  const Reference reference;
  for (const auto& item : reference.cases.items()) {
    expect_case(reference, item.key(), 1, 14);
    expect_case(reference, item.key(), 3, 7);
  }
}

// One minibatch of all steps is one of all unrolls.
TEST(ActorCritic, EqualsPyTorchInMinibatchesOfSteps) {
  const Reference reference;
  for (const auto& item : reference.cases.items()) {
    expect_case(reference, item.key(), 1, 0, MinibatchOf::kSteps);
    expect_case(reference, item.key(), 3, 5, MinibatchOf::kSteps);
  }
}

// The settings of the algorithms choose what was compared above.
TEST(ActorCritic, TheAlgorithmsAreItsSettings) {
  EXPECT_EQ(ImpalaConfig().estimator, Estimator::kVtrace);
  EXPECT_EQ(A2cConfig().estimator, Estimator::kGae);
  EXPECT_EQ(A2cConfig().epochs, 1);
  EXPECT_EQ(A2cConfig().clip, 0);
  EXPECT_EQ(PpoConfig().estimator, Estimator::kGae);
  EXPECT_FALSE(PpoConfig().recompute_targets);
  EXPECT_GT(PpoConfig().clip, 0);
}

// -------------------------------------------------------------------------------------------------- other promises

// With a learning rate of 0 the minibatches of a pass see the same network: together they are the whole batch.
TEST(Impala, MinibatchesOfStepsAreThePassCutUp) {
  ImpalaConfig config;
  config.lr = 0, config.clip = 0.2, config.normalize_advantage = true, config.loss_reduction = Reduction::kMean;
  auto learn = [&](int64_t minibatches) {
    config.minibatch_of = MinibatchOf::kSteps, config.minibatches = minibatches;
    torch::manual_seed(1);
    Impala impala(make_mlp(), config);
    return impala.learn(make_batch(kSpec, 6, 8, 1), 0);
  };
  const LearnStats whole = learn(1), parts = learn(12);
  EXPECT_EQ(stat(parts, "updates"), 12);
  for (const char* name : {"loss", "policy_loss", "value_loss", "entropy", "kl", "rho_mean", "ratio_clipped",
                           "rho_max_deviation", "explained_variance"}) {
    EXPECT_NEAR(stat(parts, name), stat(whole, name), 1e-5) << name;
  }
}

TEST(Impala, RatioIsOneAtLagZero) {
  const ModelRegistry models = builtin_models();
  struct {
    const char* name;
    ModelSpec spec;
  } cases[] = {{"mlp", {{4}, DType::kF32, 2, 0}},
               {"atari42", {{42, 42, 4}, DType::kU8, 6, 0}},
               {"nature", {{84, 84, 4}, DType::kU8, 6, 0}},
               {"impala_shallow", {{84, 84, 4}, DType::kU8, 18, 0}},
               {"impala_deep", {{42, 42, 4}, DType::kU8, 6, 0}}};
  for (const auto& c : cases) {
    torch::manual_seed(3);
    auto model = models.make(c.name, c.spec);
    {  // a policy that is far from uniform, so that equal ratios mean something
      torch::NoGradGuard no_grad;
      for (const auto& item : model->named_parameters()) {
        if (item.key() == "policy.weight") item.value().mul_(200);
      }
    }
    Impala impala(model);
    const Batch batch = make_batch(c.spec, 5, 6, 11, &impala);
    const LearnStats stats = impala.learn(batch, 0);
    EXPECT_LT(stat(stats, "rho_max_deviation"), 1e-4) << c.name;
    EXPECT_LT(stat(stats, "kl"), 1e-6) << c.name;
    EXPECT_LT(stat(stats, "entropy"), 0.9 * std::log(c.spec.num_actions)) << c.name;
  }
}

TEST(Impala, FirstEntropyIsUniform) {
  const ModelRegistry models = builtin_models();
  for (const auto& [name, spec] : std::map<std::string, ModelSpec>{{"mlp", {{4}, DType::kF32, 2, 0}},
                                                                   {"atari42", {{42, 42, 4}, DType::kU8, 6, 0}},
                                                                   {"nature", {{84, 84, 4}, DType::kU8, 18, 0}},
                                                                   {"impala_deep", {{42, 42, 4}, DType::kU8, 6, 0}}}) {
    torch::manual_seed(1);
    Impala impala(models.make(name, spec));
    const LearnStats stats = impala.learn(make_batch(spec, 4, 4, 1, &impala), 0);
    EXPECT_NEAR(stat(stats, "entropy") / std::log(spec.num_actions), 1, 0.01) << name;
  }
}

TEST(Impala, ThreadsAreReproducible) {
  const ModelSpec spec{{42, 42, 4}, DType::kU8, 6, 0};
  const ModelRegistry models = builtin_models();
  auto train = [&](int64_t threads) {
    torch::manual_seed(5);
    ImpalaConfig config;
    config.learner_threads = threads, config.epochs = 2, config.minibatches = 2, config.clip = 0.2;
    config.optimizer = OptimizerKind::kAdam, config.eps = 1e-5, config.loss_reduction = Reduction::kMean;
    auto model = models.make("atari42", spec);
    Impala impala(model, config, replicas_of(models.factory("atari42"), spec));
    for (uint64_t i = 0; i < 2; ++i) impala.learn(make_batch(spec, 6, 5, i), 0);
    return model->get_weights();
  };
  const Weights one = train(1), two = train(2), again = train(2);
  for (size_t i = 0; i < one.entries.size(); ++i) {
    EXPECT_TRUE(two.entries[i].array == again.entries[i].array) << one.entries[i].name;
    EXPECT_TRUE(at::allclose(to_tensor(one.entries[i].array), to_tensor(two.entries[i].array), 1e-3, 1e-4))
        << one.entries[i].name;
  }
}

TEST(Impala, NewWeightsReachTheReplicas) {
  const ModelSpec spec{{42, 42, 4}, DType::kU8, 6, 0};
  const ModelRegistry models = builtin_models();
  torch::manual_seed(5);
  ImpalaConfig config;
  config.learner_threads = 2;
  Impala impala(models.make("atari42", spec), config, replicas_of(models.factory("atari42"), spec));
  const Weights weights = impala.get_weights(), state = impala.get_state();
  const Batch batch = make_batch(spec, 4, 3, 1);
  impala.learn(batch, 0);
  const Weights first = impala.get_weights();
  impala.set_weights(weights);
  impala.set_state(state);
  impala.learn(batch, 0);
  for (size_t i = 0; i < first.entries.size(); ++i) {
    EXPECT_TRUE(impala.get_weights().entries[i].array == first.entries[i].array) << first.entries[i].name;
  }
}

class State : public ::testing::TestWithParam<MinibatchOf> {};

TEST_P(State, ContinuesToTheBit) {
  ImpalaConfig config;
  config.minibatches = 3, config.epochs = 2, config.minibatch_of = GetParam();
  config.optimizer = OptimizerKind::kAdam;
  torch::manual_seed(1);
  auto a = make_mlp();
  Impala first(a, config);
  first.learn(make_batch(kSpec, 6, 4, 1), 100);
  auto b = make_mlp();
  Impala second(b, config);
  second.set_weights(first.get_weights());
  second.set_state(first.get_state());
  const Batch batch = make_batch(kSpec, 6, 4, 2);
  const LearnStats x = first.learn(batch, 200), y = second.learn(batch, 200);
  EXPECT_EQ(x, y);
  for (size_t i = 0; i < a->get_weights().entries.size(); ++i) {
    EXPECT_TRUE(a->get_weights().entries[i].array == b->get_weights().entries[i].array);
  }
  EXPECT_EQ(stat(y, "policy_lag_mean"), 1);
}

INSTANTIATE_TEST_SUITE_P(Impala, State, ::testing::Values(MinibatchOf::kUnrolls, MinibatchOf::kSteps));

TEST(Impala, TargetKlEndsThePasses) {
  ImpalaConfig config;
  config.epochs = 10, config.optimizer = OptimizerKind::kAdam, config.lr = 0.05, config.eps = 1e-5;
  auto passes = [&](double target) {
    config.target_kl = target;
    torch::manual_seed(1);
    Impala impala(make_mlp(), config);
    return stat(impala.learn(make_batch(kSpec, 6, 8, 1, &impala), 0), "passes");
  };
  EXPECT_EQ(passes(0), 10);
  EXPECT_LT(passes(0.02), 10);
  EXPECT_GE(passes(1e-9), 1);
}

TEST(Impala, SchedulesFollowAgentSteps) {
  ImpalaConfig config;
  config.lr_schedule = "0:1e-3,1000:0";
  config.entropy_schedule = "step 0:0.1,500:0.01";
  Impala impala(make_mlp(), config);
  const Batch batch = make_batch(kSpec, 2, 3, 1);
  LearnStats stats = impala.learn(batch, 250);
  EXPECT_DOUBLE_EQ(stat(stats, "lr"), 7.5e-4);
  EXPECT_DOUBLE_EQ(stat(stats, "entropy_cost"), 0.1);
  const Weights before = impala.get_weights();
  stats = impala.learn(batch, 5000);
  EXPECT_DOUBLE_EQ(stat(stats, "lr"), 0);
  EXPECT_DOUBLE_EQ(stat(stats, "entropy_cost"), 0.01);
  EXPECT_TRUE(before.entries[0].array == impala.get_weights().entries[0].array);
}

std::string nonfinite_tensor(Impala& impala, const Batch& batch) {
  const Weights before = impala.get_weights();
  try {
    impala.learn(batch, 0);
  } catch (const NonFiniteError& error) {
    EXPECT_TRUE(error.batch().reward.defined());
    EXPECT_EQ(error.weights().entries.size(), 2 * before.entries.size());
    EXPECT_TRUE(impala.get_weights().entries[1].array == before.entries[1].array);
    EXPECT_THAT(error.what(), testing::HasSubstr(error.tensor()));
    return error.tensor();
  }
  return "nothing thrown";
}

TEST(Impala, NamesWhatIsNotFinite) {
  Impala impala(make_mlp());
  Batch batch = make_batch(kSpec, 3, 4, 1);
  batch.reward[1][2] = std::nanf("");
  EXPECT_EQ(nonfinite_tensor(impala, batch), "reward");
  batch = make_batch(kSpec, 3, 4, 1);
  batch.obs[0][0][0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(nonfinite_tensor(impala, batch), "obs");
  batch = make_batch(kSpec, 3, 4, 1);
  {
    torch::NoGradGuard no_grad;
    impala.model().named_parameters()["layer1.bias"][3] = std::nanf("");
  }
  EXPECT_EQ(nonfinite_tensor(impala, batch), "layer1.bias");
  EXPECT_THROW(impala.sample(torch::randn({2, 5}), torch::rand({2})), NonFiniteError);
}

TEST(Impala, RefusesWhatDoesNotFit) {
  ImpalaConfig config;
  config.lr_schedule = "0:1e-3,zero";
  EXPECT_THROW(Impala(make_mlp(), config), Error);
  config = {};
  config.clip = 2;
  EXPECT_THROW(Impala(make_mlp(), config), Error);
  config = {};
  config.minibatches = 5;
  Impala impala(make_mlp(), config);
  EXPECT_THROW(impala.learn(make_batch(kSpec, 4, 3, 1), 0), Error);
  config.minibatch_of = MinibatchOf::kSteps;
  EXPECT_NO_THROW(Impala(make_mlp(), config).learn(make_batch(kSpec, 4, 3, 1), 0));
  config.minibatches = 13;
  EXPECT_THROW(Impala(make_mlp(), config).learn(make_batch(kSpec, 4, 3, 1), 0), Error);
  Batch batch = make_batch(kSpec, 6, 3, 1);
  batch.truncated[0][0] = true, batch.terminated[0][0] = false;
  batch.final_index = torch::empty({0}, at::kLong);
  EXPECT_THROW(impala.learn(batch, 0), Error);
}

}  // namespace
}  // namespace parl
