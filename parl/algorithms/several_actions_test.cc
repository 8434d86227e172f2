// Actions of several numbers, and masks of legal actions, through the algorithms: against PyTorch's numbers, and that
// no forbidden action is ever taken.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "parl/agent/categorical.h"
#include "parl/agent/masked_model.h"
#include "parl/agent/obs_parts.h"
#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/actor_critic.h"
#include "parl/algorithms/dqn.h"
#include "parl/algorithms/learn_stat.h"
#include "parl/algorithms/reference_file.h"
#include "parl/core/check.h"
#include "parl/models/mlp.h"

namespace parl {
namespace {

constexpr int64_t kNumbers = 5;  // that the network sees

ModelSpec spec_of(const std::vector<int64_t>& choices, bool mask) {
  ModelSpec spec{{kNumbers}, DType::kF32, 0, 0};
  for (int64_t n : choices) spec.num_actions += n;
  if (choices.size() > 1) spec.action_choices = choices;
  if (!mask) return spec;
  spec.parts = {{"x", DType::kF32, {kNumbers}, 0}, {"action_mask", DType::kU8, {spec.num_actions}, 4 * kNumbers}};
  spec.obs_shape = {(4 * kNumbers + spec.num_actions + 7) / 8 * 8};
  spec.obs_dtype = DType::kU8;
  return spec;
}

// An Mlp over the part "x".
class PartMlp : public Mlp {
 public:
  explicit PartMlp(const ModelSpec& spec) : Mlp(inner(spec), {8}), part_(spec.parts.at(0)) {}
  PolicyValue forward(const at::Tensor& obs) override { return Mlp::forward(part_view(obs, part_)); }

 private:
  static ModelSpec inner(const ModelSpec& spec) { return {{kNumbers}, DType::kF32, spec.num_actions, 0}; }
  ObsPart part_;
};

std::shared_ptr<Model> make_model(const ModelSpec& spec) {
  std::shared_ptr<Model> model;
  if (spec.action_mask()) {
    model = std::make_shared<MaskedModel>(std::make_shared<PartMlp>(spec), spec);
  } else {
    model = std::make_shared<Mlp>(spec, std::vector<int64_t>{8});
  }
  model->set_action_choices(spec.action_choices);
  return model;
}

// [..., kNumbers + A] float32 as the reference has them -> the bytes of observations with two parts.
at::Tensor to_blocks(const at::Tensor& obs, const ModelSpec& spec) {
  if (!spec.action_mask()) return obs;
  std::vector<int64_t> shape = obs.sizes().vec();
  shape.back() = spec.obs_shape[0];
  const at::Tensor out = torch::zeros(shape, at::kByte), flat = out.flatten(0, -2), from = obs.flatten(0, -2);
  part_view(flat, spec.parts[0]).copy_(from.narrow(1, 0, kNumbers));
  part_view(flat, spec.parts[1]).copy_(from.narrow(1, kNumbers, spec.num_actions));
  return out;
}

ActorCriticConfig config_of(const nlohmann::json& c) {
  ActorCriticConfig config;
  config.estimator = c["estimator"] == "gae" ? Estimator::kGae : Estimator::kVtrace;
  config.gamma = c["gamma"], config.lambda = c["lam"], config.entropy_cost = c["entropy_cost"];
  config.clip = c["clip"], config.max_grad_norm = c["max_grad_norm"], config.lr = c["lr"], config.eps = c["eps"];
  config.epochs = c["epochs"], config.normalize_advantage = c["normalize"];
  config.recompute_targets = c["recompute"];
  config.minibatch_of = config.recompute_targets ? MinibatchOf::kUnrolls : MinibatchOf::kSteps;
  config.loss_reduction = c["reduction"] == "sum" ? Reduction::kSum : Reduction::kMean;
  config.optimizer = c["optimizer"] == "adam" ? OptimizerKind::kAdam : OptimizerKind::kRmsprop;
  return config;
}

struct Reference : ReferenceFile {
  Reference() : ReferenceFile("several_actions"), cases(nlohmann::json::parse(ReferenceFile::cases)) {}
  nlohmann::json cases;
};

void expect_case(const Reference& reference, const std::string& name, int64_t threads, int64_t micro_batch) {
  SCOPED_TRACE(name + " threads " + std::to_string(threads));
  const auto& c = reference.cases[name];
  const ModelSpec spec = spec_of(c["choices"], c["mask"]);
  ActorCriticConfig config = config_of(c);
  config.learner_threads = threads;
  config.micro_batch = micro_batch;
  const auto model = make_model(spec);
  reference.set_initial(*model, name);
  ActorCritic algorithm(model, config, [&] { return make_model(spec); });
  for (int64_t step = 0; step < 3; ++step) {
    Batch batch = reference.batch(name + "/" + std::to_string(step) + "/");
    batch.obs = to_blocks(batch.obs, spec), batch.final_obs = to_blocks(batch.final_obs, spec);
    const LearnStats stats = algorithm.learn(batch, 0);
    reference.expect_update(name, step, stats, *model, config.max_grad_norm, false);
  }
}

TEST(SeveralActions, EqualPyTorch) {
  at::set_num_threads(1);
  const Reference reference;
  ASSERT_EQ(reference.cases.size(), 4u);
  for (const auto& item : reference.cases.items()) {
    expect_case(reference, item.key(), 1, 0);
    expect_case(reference, item.key(), 3, 7);
  }
}

// Observations whose masks leave one, two or all of four actions, or none (then all count).
at::Tensor masked_observations(const ModelSpec& spec, int64_t count) {
  torch::manual_seed(3);
  const at::Tensor mask = torch::rand({count, spec.num_actions}).lt(0.4).to(at::kFloat);
  return to_blocks(torch::cat({torch::randn({count, kNumbers}), mask}, 1), spec);
}

void expect_legal(const ModelSpec& spec, const at::Tensor& obs, const at::Tensor& action) {
  at::Tensor legal = legal_actions(spec, obs);
  EXPECT_TRUE(legal.gather(1, action.unsqueeze(1)).all().item<bool>());
}

TEST(Masks, NoForbiddenActionIsTaken) {
  at::set_num_threads(1);
  const ModelSpec spec = spec_of({4}, true);
  const at::Tensor obs = masked_observations(spec, 400);
  const at::Tensor uniforms = torch::rand({400});
  ActorCritic actor(make_model(spec));
  const ActOutput sampled = actor.sample(obs, uniforms);
  expect_legal(spec, obs, sampled.action);
  expect_legal(spec, obs, actor.predict(obs).action);
  const at::Tensor p = sampled.logits.softmax(1), legal = legal_actions(spec, obs);
  EXPECT_EQ(p.masked_select(legal.logical_not()).abs().max().item<float>(), 0.0f);
  for (const bool dueling : {false, true}) {
    DqnConfig config;
    config.dueling = dueling;
    config.exploration = "0:0.7";  // most actions are random
    Dqn dqn(make_model(spec), config);
    const ActOutput out = dqn.sample(obs, uniforms);
    expect_legal(spec, obs, out.action);
    expect_legal(spec, obs, dqn.predict(obs).action);
    // Exploration takes every legal action.
    EXPECT_EQ(std::get<0>(at::_unique(out.action)).numel(), 4);
  }
}

// Targets and gradients of a masked, dueling Dqn: what is forbidden takes no part.
TEST(Masks, DqnLearnsFromLegalActionsAlone) {
  at::set_num_threads(1);
  const ModelSpec spec = spec_of({3}, true);
  for (const bool dueling : {false, true}) {
    DqnConfig config;
    config.dueling = dueling;
    config.learn_start = 0;
    config.batch_size = 32;
    config.replay_capacity = 64;
    config.train_ratio = 10;
    config.lr = 1e-2;
    config.gamma = 0.5;
    torch::manual_seed(1);
    Dqn dqn(make_model(spec), config, make_model(spec));
    // One state; action 1 is forbidden, 0 pays 1 and 2 pays nothing, truncated ends: the best value is 1 / (1 - 0.5).
    const at::Tensor row =
        to_blocks(torch::tensor({0.3f, -0.2f, 0.5f, 0.1f, -0.4f, 1.0f, 0.0f, 1.0f}).unsqueeze(0), spec);
    Batch batch;
    batch.obs = row.expand({8, 9, spec.obs_shape[0]}).contiguous();
    batch.action = torch::arange(64).view({8, 8}).remainder(2) * 2;
    batch.behaviour_logits = torch::zeros({8, 8, 3});
    batch.reward = batch.action.eq(0).to(at::kFloat);
    batch.terminated = torch::zeros({8, 8}, at::kBool);
    batch.truncated = torch::zeros({8, 8}, at::kBool);
    batch.final_index = torch::zeros({0}, at::kLong);
    for (int64_t i = 0; i < 16; ++i) {
      dqn.learn(batch, i * 64);
      dqn.set_weights(dqn.get_weights());  // the target network follows
    }
    const ActOutput out = dqn.predict(row);
    EXPECT_EQ(out.action.item<int64_t>(), 0);
    EXPECT_NEAR(out.value.item<float>(), 2.0f, 0.25f) << "dueling " << dueling;
    EXPECT_LT(out.logits[0][1].item<float>(), -1e8f);
  }
}

TEST(SeveralActions, DqnRefusesThem) { EXPECT_THROW(Dqn(make_model(spec_of({3, 2}, false))), Error); }

}  // namespace
}  // namespace parl
