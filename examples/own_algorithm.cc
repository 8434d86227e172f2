// An algorithm of one's own with settings of its own: REINFORCE (Williams 1992, doi 10.1007/BF00992696) with returns of
// whole episodes, in a program with the whole command line.
//   own_algorithm train reinforce --env CartPole-v1 --model mlp --until-return 195
//   own_algorithm train reinforce --help        shows --whiten-returns and the others
//   own_algorithm check algorithm reinforce --monte-carlo     does it keep an algorithm's promises?
#include <torch/torch.h>

#include <memory>
#include <string>

#include "cli/command_line.h"
#include "parl/agent/algorithm.h"
#include "parl/agent/categorical.h"
#include "parl/agent/nonfinite.h"
#include "parl/agent/optimizer.h"
#include "parl/train/program.h"
#include "parl/train/train_config.h"

namespace {

struct ReinforceConfig {
  double gamma = 0.99;
  double lr = 1e-2;
  bool whiten_returns = true;
};
PARL_CONFIG(ReinforceConfig, (gamma, "discount per agent step"), (lr, "Adam's learning rate"),
            (whiten_returns, "returns to mean 0 and deviation 1 within a batch"));

class Reinforce : public parl::Algorithm {
 public:
  explicit Reinforce(std::shared_ptr<parl::Model> model, ReinforceConfig config = {})
      : model_(std::move(model)), config_(config) {
    model_->eval();
  }

  parl::ActOutput sample(const at::Tensor& obs, const at::Tensor& uniforms) override {
    parl::ActOutput out = act(obs);
    out.action = parl::sample_categorical(out.logits, uniforms);
    return out;
  }
  parl::ActOutput predict(const at::Tensor& obs) override {
    parl::ActOutput out = act(obs);
    out.action = parl::greedy_action(out.logits);
    return out;
  }

  parl::LearnStats learn(const parl::Batch& batch, int64_t) override {
    batch.check();
    auto [weight, known] = returns(batch);
    const double steps = std::max(1.0, known.sum().item<double>());
    if (config_.whiten_returns) {
      const at::Tensor mean = (weight * known).sum() / steps;
      weight = (weight - mean) / ((((weight - mean) * known).pow(2).sum() / steps).sqrt() + 1e-8);
    }
    Learner& learner = this->learner();
    learner.parameters.zero_gradients();
    const at::Tensor obs = batch.obs.narrow(1, 0, batch.length()).flatten(0, 1);
    const at::Tensor log_probs = at::log_softmax(model_->forward(obs).logits, 1);
    const at::Tensor chosen = log_probs.gather(1, batch.action.flatten().unsqueeze(1)).squeeze(1);
    const at::Tensor loss = -(chosen * (weight * known).flatten()).sum() / steps;
    loss.backward();
    const std::string bad = learner.parameters.find_nonfinite(/*gradients=*/true);
    if (!bad.empty()) throw parl::NonFiniteError(bad, "NaN or inf in the gradient of '" + bad + "'");
    learner.optimizer.step(config_.lr);
    const double entropy = -(log_probs.exp() * log_probs).sum(1).mean().item<double>();
    return {{"loss", loss.item<double>()}, {"entropy", entropy}, {"share_learnt", steps / double(batch.steps())}};
  }

  parl::Model& model() override { return *model_; }
  parl::Weights get_state() const override {
    parl::Weights state;
    learner().optimizer.append_state(state);
    return state;
  }
  void set_state(const parl::Weights& state) override { learner().optimizer.set_state(state); }

 private:
  struct Learner {
    explicit Learner(parl::Model& model) : parameters(model), optimizer(parameters, {"adam", 1e-8, 0, 0.9, 0.999}) {}
    parl::FlatParameters parameters;
    parl::FlatOptimizer optimizer;
  };
  Learner& learner() const {  // actors never learn: they have none
    if (!learner_) learner_ = std::make_unique<Learner>(*model_);
    return *learner_;
  }

  parl::ActOutput act(const at::Tensor& obs) const {
    torch::NoGradGuard no_grad;
    const parl::PolicyValue out = model_->forward(obs);
    return {at::Tensor(), out.logits.contiguous(), out.value.contiguous()};
  }

  // The discounted return of every step [B, T], and 1 where it is known: where the episode ends within the unroll.
  std::pair<at::Tensor, at::Tensor> returns(const parl::Batch& batch) const {
    at::Tensor total = torch::zeros_like(batch.reward), known = torch::zeros_like(batch.reward);
    at::Tensor sum = torch::zeros({batch.unrolls()}), seen = torch::zeros({batch.unrolls()});
    const at::Tensor ended = batch.terminated.logical_or(batch.truncated).to(at::kFloat);
    for (int64_t t = batch.length() - 1; t >= 0; --t) {
      const at::Tensor end = ended.select(1, t);
      seen = at::maximum(seen, end);
      sum = batch.reward.select(1, t) + config_.gamma * (1 - end) * sum;
      total.select(1, t).copy_(sum);
      known.select(1, t).copy_(seen);
    }
    return {total, known};
  }

  std::shared_ptr<parl::Model> model_;
  ReinforceConfig config_;
  mutable std::unique_ptr<Learner> learner_;
};

}  // namespace

int main(int argc, char** argv) {
  parl::set_program([](parl::Program& program) {
    parl::AlgorithmEntry entry;
    entry.name = "reinforce";
    entry.summary = "policy gradient with the returns of whole episodes";
    entry.settings = ReinforceConfig{};
    entry.make_learner = [](const parl::ModelFactory& model, const parl::ModelSpec& spec,
                            const parl::TrainConfig& run) {
      return std::make_unique<Reinforce>(model(spec), run.settings.as<ReinforceConfig>());
    };
    entry.make_actor = [](std::shared_ptr<parl::Model> model, const parl::AnyConfig&) {
      return std::make_unique<Reinforce>(std::move(model));
    };
    entry.run_defaults = R"({"max_lag": 0, "rollout_length": 256})";  // on-policy, and long enough for whole episodes
    program.algorithms.push_back(std::move(entry));
  });
  return parl::command_line(argc, argv);
}
