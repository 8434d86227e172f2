#include "parl/models/normalized.h"

#include <torch/torch.h>

#include "parl/agent/recurrent.h"
#include "parl/core/check.h"

namespace parl {
namespace {

constexpr double kClip = 10, kEpsilon = 1e-8;

class Statistics : public torch::nn::Module {
 public:
  explicit Statistics(const std::vector<int64_t>& shape) : dims_(static_cast<int64_t>(shape.size())) {
    count_ = register_buffer("count", torch::zeros({1}, at::kDouble));
    mean_ = register_buffer("mean", torch::zeros(shape, at::kDouble));
    variance_ = register_buffer("variance", torch::ones(shape, at::kDouble));
  }

  at::Tensor apply(const at::Tensor& obs) const {
    return ((obs - mean_) / (variance_ + kEpsilon).sqrt()).clamp_(-kClip, kClip).to(at::kFloat);
  }

  void add(const at::Tensor& obs) {
    torch::NoGradGuard no_grad;
    const at::Tensor rows = obs.flatten(0, obs.dim() - dims_ - 1).to(mean_.device()).to(at::kDouble);
    const double before = count_.item<double>(), added = static_cast<double>(rows.size(0)), all = before + added;
    const at::Tensor mean = rows.mean(0), difference = mean - mean_;
    // The sum of squares around the common mean; the variance before the first batch is nobody's.
    const at::Tensor squares = (rows - mean).square().sum(0) + (before > 0 ? variance_ * before : variance_ * 0) +
                               difference.square() * (before * added / all);
    mean_.add_(difference * (added / all));
    variance_.copy_(squares / all);
    count_.fill_(all);
  }

 private:
  int64_t dims_;
  at::Tensor count_, mean_, variance_;
};

class Normalized : public Model {
 public:
  Normalized(std::shared_ptr<Model> network, const ModelSpec& spec) : network_(std::move(network)) {
    register_module("network", network_);
    statistics_ = register_module("observations", std::make_shared<Statistics>(spec.obs_shape));
  }
  PolicyValue forward(const at::Tensor& obs) override { return network_->forward(statistics_->apply(obs)); }
  std::unique_ptr<Recording> record(const at::Tensor& obs) override {
    return network_->record(statistics_->apply(obs));
  }
  bool is_gaussian() const override { return network_->is_gaussian(); }
  int64_t preferred_rows() const override { return network_->preferred_rows(); }
  void observe(const at::Tensor& obs) override { statistics_->add(obs); }

 private:
  std::shared_ptr<Model> network_;
  std::shared_ptr<Statistics> statistics_;
};

class NormalizedRecurrent : public RecurrentModel {
 public:
  NormalizedRecurrent(std::shared_ptr<Model> network, const ModelSpec& spec)
      : owner_(std::move(network)), network_(owner_->recurrent()) {
    register_module("network", owner_);
    statistics_ = register_module("observations", std::make_shared<Statistics>(spec.obs_shape));
  }
  int64_t state_size() const override { return network_->state_size(); }
  StepOutput step(const at::Tensor& obs, const at::Tensor& state) override {
    return network_->step(statistics_->apply(obs), state);
  }
  SequenceOutput sequence(const Sequence& in) override { return network_->sequence(seen(in)); }
  SequenceRecording record_sequence(const Sequence& in) override { return network_->record_sequence(seen(in)); }
  bool is_gaussian() const override { return owner_->is_gaussian(); }
  int64_t preferred_rows() const override { return network_->preferred_rows(); }
  void observe(const at::Tensor& obs) override { statistics_->add(obs); }

 private:
  Sequence seen(Sequence in) const {
    in.obs = statistics_->apply(in.obs);
    return in;
  }

  std::shared_ptr<Model> owner_;
  RecurrentModel* network_;  // the same
  std::shared_ptr<Statistics> statistics_;
};

}  // namespace

std::shared_ptr<Model> normalized(std::shared_ptr<Model> network, const ModelSpec& spec) {
  PARL_CHECK(spec.obs_dtype == DType::kF32,
             "observations of type {} are not normalised (networks scale pixels themselves): leave "
             "--normalize-observations out",
             dtype_name(spec.obs_dtype));
  const std::vector<int64_t> choices = network->action_choices();
  std::shared_ptr<Model> out;
  if (network->recurrent()) {
    out = std::make_shared<NormalizedRecurrent>(std::move(network), spec);
  } else {
    out = std::make_shared<Normalized>(std::move(network), spec);
  }
  out->set_action_choices(choices);
  return out;
}

}  // namespace parl
