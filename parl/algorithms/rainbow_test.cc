// Rainbow's parts in Dqn, alone and together: numbers by PyTorch (scripts/reference_dqn.py), and what settings mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/dqn.h"
#include "parl/algorithms/learn_stat.h"
#include "parl/core/error_of.h"
#include "parl/models/mlp.h"

namespace parl {
namespace {

using ::testing::HasSubstr;

const ModelSpec kSpec{{5}, DType::kF32, 3, 0};

std::shared_ptr<Model> make_mlp(const DqnConfig& config) {
  return std::make_shared<Mlp>(Dqn::network_spec(kSpec, config), std::vector<int64_t>{8});
}

DqnConfig everything() {
  DqnConfig config;
  config.double_q = config.dueling = config.prioritized = config.distributional = config.noisy = true;
  config.n_step = 3, config.atoms = 7, config.v_min = -3, config.v_max = 3;
  config.batch_size = 8, config.train_ratio = 4, config.learn_start = 0, config.replay_capacity = 64;
  return config;
}

Batch random_batch(uint64_t seed) {
  torch::manual_seed(seed);
  Batch b;
  b.obs = torch::randn({2, 5, 5});
  b.action = torch::randint(0, 3, {2, 4});
  b.behaviour_logits = torch::zeros({2, 4, 3});
  b.reward = torch::randn({2, 4});
  b.terminated = torch::rand({2, 4}).lt(0.2);
  b.truncated = torch::zeros({2, 4}, at::kBool);
  b.final_index = torch::zeros({0}, at::kLong);
  return b;
}

Weights with_prefix(const Weights& all, const std::string& prefix) {
  Weights out;
  for (const NamedArray& entry : all.entries) {
    if (entry.name.starts_with(prefix)) out.entries.push_back({entry.name.substr(prefix.size()), entry.array});
  }
  return out;
}

DqnConfig config_of(const nlohmann::json& c) {
  DqnConfig config;
  config.double_q = c["double"], config.dueling = c["dueling"], config.distributional = c["distributional"];
  config.noisy = c["noisy"], config.noisy_sigma = c["sigma"], config.n_step = c["n_step"], config.prioritized = true;
  config.priority_alpha = c["alpha"], config.priority_beta = c["beta"].dump(), config.gamma = c["gamma"];
  config.lr = c["lr"], config.eps = c["eps"], config.max_grad_norm = c["max_grad_norm"], config.atoms = c["atoms"];
  config.v_min = c["v_min"], config.v_max = c["v_max"], config.replay_seed = c["seed"];
  config.target_updates = c["target_updates"], config.learn_start = 0, config.replay_capacity = 8;
  config.batch_size = 8, config.train_ratio = c["updates"];  // of eight steps, so many updates
  return config;
}

TEST(Rainbow, EqualsPyTorch) {
  SafetensorsMetadata metadata;
  const Weights reference = load_safetensors(
      std::string(PARL_SOURCE_DIR) + "/parl/algorithms/testdata/rainbow_reference.safetensors", &metadata);
  const nlohmann::json cases = nlohmann::json::parse(metadata.at("cases"));
  ASSERT_EQ(cases.size(), 7u);
  for (const auto& [name, c] : cases.items()) {
    SCOPED_TRACE(name);
    const auto get = [&](const std::string& what) { return to_tensor(get_entry(reference, name + "/" + what)); };
    const DqnConfig config = config_of(c);
    auto model = make_mlp(config);
    Weights initial = with_prefix(reference, name + "/initial/"), network;
    for (const NamedArray& entry : initial.entries) {
      if (!entry.name.starts_with("sigma.")) network.entries.push_back(entry);
    }
    model->set_weights(network);
    Dqn dqn(model, config, make_mlp(config));
    const at::Tensor noise = get("noise");
    dqn.set_noise_source([&](NoiseUse use, int64_t update, std::span<float> normal) {
      const at::Tensor given = noise[update][static_cast<int64_t>(use)].contiguous();
      ASSERT_EQ(static_cast<int64_t>(normal.size()), given.numel());
      std::copy_n(given.const_data_ptr<float>(), normal.size(), normal.data());
    });
    Batch batch;
    batch.obs = get("obs"), batch.action = get("action"), batch.reward = get("reward");
    batch.terminated = get("terminated"), batch.truncated = get("truncated");
    batch.final_index = get("final_index"), batch.final_obs = get("final_obs");
    batch.behaviour_logits = torch::zeros({2, 4, 3});
    const LearnStats stats = dqn.learn(batch, 0);
    ASSERT_EQ(stat(stats, "updates"), c["updates"].get<double>());
    EXPECT_NEAR(stat(stats, "loss"), get("loss").item<double>(), 2e-5);
    EXPECT_NEAR(stat(stats, "grad_norm"), get("grad_norm").item<double>(), 2e-5);
    for (const auto& item : dqn.model().named_parameters()) {
      EXPECT_TRUE(at::allclose(item.value(), get("after/" + item.key()), 1e-4, 1e-5)) << item.key();
    }
    Weights state;
    dqn.replay().append_state(state);
    const at::Tensor priority = to_tensor(get_entry(state, "replay/priority")).narrow(0, 0, 8).to(at::kFloat);
    EXPECT_TRUE(at::allclose(priority, get("priority"), 1e-3, 1e-4)) << priority << get("priority");
  }
}

TEST(Rainbow, TheNetworkIsAskedForItsAtoms) {
  DqnConfig config;
  EXPECT_EQ(Dqn::network_spec(kSpec, config).num_actions, 3);
  config.distributional = true;
  EXPECT_EQ(Dqn::network_spec(kSpec, config).num_actions, 3 * 51);
  config.dueling = true;
  EXPECT_EQ(Dqn::network_spec(kSpec, config).num_actions, 4 * 51);
  Dqn dqn(make_mlp(config), config);
  EXPECT_EQ(dqn.sample(torch::randn({6, 5}), torch::rand({6})).logits.sizes(), (std::vector<int64_t>{6, 3}));
  Dqn wrong(std::make_shared<Mlp>(kSpec), config);
  EXPECT_THAT(error_of([&] { wrong.predict(torch::randn({1, 5})); }), HasSubstr("3 outputs"));
}

TEST(Rainbow, ActingNoiseComesFromTheUniformNumbersAlone) {
  DqnConfig config = everything();
  config.exploration = "0";
  config.noisy_sigma = 30;
  torch::manual_seed(1);
  Dqn learner(make_mlp(config), config, make_mlp(config)), actor(make_mlp(config), config);
  learner.learn(random_batch(2), 0);
  actor.set_weights(learner.get_weights());
  const at::Tensor obs = torch::randn({64, 5}), u = torch::rand({64}), other = torch::rand({64});
  const ActOutput a = learner.sample(obs, u), b = actor.sample(obs, u), c = actor.sample(obs, other);
  EXPECT_TRUE(a.logits.equal(b.logits));
  EXPECT_FALSE(b.logits.equal(c.logits));
  EXPECT_TRUE(actor.sample(obs, u).logits.equal(b.logits));  // whatever was drawn between
  // Without noise: the greedy action, evaluation.
  const at::Tensor quiet = actor.predict(obs).logits;
  EXPECT_FALSE(quiet.equal(b.logits));
  actor.play_for_evaluation(true);
  EXPECT_TRUE(actor.sample(obs, u).logits.equal(quiet));
  actor.play_for_evaluation(false);
  EXPECT_TRUE(actor.sample(obs, u).logits.equal(b.logits));
}

TEST(Rainbow, LearningNoiseIsSeeded) {
  const auto losses = [](int64_t seed) {
    DqnConfig config = everything();
    config.replay_seed = seed;
    config.prioritized = false;
    config.n_step = 1;
    config.replay_capacity = 8;
    torch::manual_seed(1);
    Dqn dqn(make_mlp(config), config, make_mlp(config));
    return dqn.learn(random_batch(2), 0);
  };
  EXPECT_EQ(losses(1), losses(1));
  EXPECT_NE(losses(1), losses(2));
}

TEST(Rainbow, NoiseIsNoPartOfTheNetworkThatTravels) {
  const DqnConfig config = everything();
  torch::manual_seed(1);
  Dqn learner(make_mlp(config), config, make_mlp(config));
  learner.learn(random_batch(2), 0);
  const Weights all = learner.get_weights();
  EXPECT_NE(find_entry(all, "exploration/sigma.policy.weight"), nullptr);
  const auto plain = make_mlp(config);
  plain->set_weights(network_weights(all));  // the user's own network takes it
  const at::Tensor obs = torch::randn({4, 5});
  torch::NoGradGuard no_grad;
  EXPECT_TRUE(config.atoms_of().q_values(plain->forward(obs).logits).equal(learner.predict(obs).logits));
  Dqn other(make_mlp(config), config);
  other.set_weights(network_weights(all));  // another run's beginning: its own noise stays
  EXPECT_NEAR(to_tensor(get_entry(other.get_weights(), "exploration/sigma.policy.bias")).max().item<double>(),
              0.5 / std::sqrt(8), 1e-6);
}

TEST(Rainbow, ContinuesToTheBitWithItsBuffer) {
  const DqnConfig config = everything();
  torch::manual_seed(1);
  Dqn whole(make_mlp(config), config, make_mlp(config)), part(make_mlp(config), config, make_mlp(config));
  for (uint64_t i = 0; i < 3; ++i) whole.learn(random_batch(i), static_cast<int64_t>(8 * i));
  part.set_weights(whole.get_weights());
  part.set_state(whole.get_state());
  const std::string path = ::testing::TempDir() + "/parl_rainbow_" + std::to_string(getpid());
  whole.replay().save(path);
  part.replay().load(path);
  std::remove(path.c_str());
  EXPECT_EQ(whole.learn(random_batch(7), 24), part.learn(random_batch(7), 24));
}

TEST(Rainbow, ALostBufferIsFilledBeforeLearningGoesOn) {
  DqnConfig config = everything();
  config.learn_start = 24;
  torch::manual_seed(1);
  Dqn first(make_mlp(config), config, make_mlp(config)), second(make_mlp(config), config, make_mlp(config));
  for (uint64_t i = 0; i < 4; ++i) first.learn(random_batch(i), static_cast<int64_t>(8 * i));
  second.set_weights(first.get_weights());
  second.set_state(first.get_state());
  second.replay_lost();
  EXPECT_EQ(stat(second.learn(random_batch(4), 32), "updates"), 0);
  Dqn third(make_mlp(config), config, make_mlp(config));  // stopped again while it fills
  third.set_state(second.get_state());
  for (Dqn* dqn : {&second, &third}) {
    double updates = 0;
    for (uint64_t i = 5; i < 7; ++i)
      updates += stat(dqn->learn(random_batch(i), static_cast<int64_t>(8 * i)), "updates");
    EXPECT_EQ(updates, dqn == &second ? 4 : 0);  // 24 steps are there with the third batch: its own samples
  }
}

TEST(Rainbow, WrongSettingsAreNamed) {
  const auto error = [](auto&& change) {
    DqnConfig config = everything();
    change(config);
    return error_of([&] { Dqn(make_mlp(everything()), config); });
  };
  EXPECT_THAT(error([](DqnConfig& c) { c.atoms = 1; }), HasSubstr("atoms is 1"));
  EXPECT_THAT(error([](DqnConfig& c) { c.v_min = 3; }), HasSubstr("v-min must be below v-max"));
  EXPECT_THAT(error([](DqnConfig& c) { c.noisy_sigma = -1; }), HasSubstr("noisy-sigma"));
  EXPECT_THAT(error([](DqnConfig& c) { c.noisy_layers = "polcy"; }), HasSubstr("policy"));
  EXPECT_THAT(error([](DqnConfig& c) { c.noisy = false, c.noisy_layers = "policy"; }), HasSubstr("noisy is off"));
}

}  // namespace
}  // namespace parl
