#include "parl/models/relu_mlp.h"

#include <torch/torch.h>

#include "parl/core/check.h"
#include "parl/models/flat_input.h"
#include "parl/models/internal/dense_backend.h"

namespace parl {
namespace {

int64_t critic_input(const ModelSpec& spec) {
  PARL_CHECK(spec.action_size > 0, "a critic of continuous control needs continuous actions");
  return flat_size(spec, "an mlp, mlp64 or mlp256 critic") + spec.action_size;
}

}  // namespace

DenseLayers::DenseLayers(torch::nn::Module& owner, int64_t in, const std::vector<int64_t>& hidden, int64_t out) {
  std::vector<int64_t> sizes = hidden;
  sizes.push_back(out);
  for (size_t i = 0; i < sizes.size(); ++i) {
    PARL_CHECK(in > 0 && sizes[i] > 0, "a layer of {} inputs and {} outputs", in, sizes[i]);
    torch::nn::Linear linear(in, sizes[i]);
    owner.register_module(i + 1 < sizes.size() ? "layer" + std::to_string(i + 1) : "head", linear);
    parameters_.emplace_back(linear->weight, linear->bias);
    in = sizes[i];
  }
#ifdef PARL_HAS_DENSE_KERNELS
  backend_ = std::make_shared<internal::DenseBackend>(parameters_);
#endif
}

DenseLayers::~DenseLayers() = default;

#ifdef PARL_HAS_DENSE_KERNELS

namespace {

using internal::copy_rows;
using internal::DenseBackend;
using internal::DensePass;

const float* run(DenseBackend& backend, DensePass& pass, const at::Tensor& obs, const at::Tensor* action) {
  const at::Tensor flat = internal::flat_floats(obs).contiguous();
  const std::vector<internal::DenseLayer>& layers = backend.layers();
  const int64_t rows = flat.size(0), own = flat.size(1), more = action ? action->size(1) : 0;
  PARL_CHECK_EQ(own + more, layers.front().in, "the network was made for another observation or action");
  float* input = pass.begin(layers, static_cast<int>(rows));
  copy_rows(flat.const_data_ptr<float>(), own, input, pass.input_row(), rows, own);
  if (action) {
    const at::Tensor from = action->contiguous();
    copy_rows(from.const_data_ptr<float>(), more, input + own, pass.input_row(), rows, more);
  }
  return pass.forward(layers);
}

PolicyValue read_policy(const float* output, ptrdiff_t row, int64_t rows, int64_t size) {
  PolicyValue out{torch::empty({rows, size}), torch::empty({rows})};
  copy_rows(output, row, out.logits.mutable_data_ptr<float>(), size, rows, size);
  copy_rows(output + size, row, out.value.mutable_data_ptr<float>(), 1, rows, 1);
  return out;
}

at::Tensor read_q(const float* output, ptrdiff_t row, int64_t rows) {
  at::Tensor q = torch::empty({rows});
  copy_rows(output, row, q.mutable_data_ptr<float>(), 1, rows, 1);
  return q;
}

class FusedMlpRecording : public Recording {
 public:
  FusedMlpRecording(PolicyValue output, std::shared_ptr<DenseBackend> backend, std::shared_ptr<DensePass> pass)
      : Recording(std::move(output)), backend_(std::move(backend)), pass_(std::move(pass)) {}

  void backward(const at::Tensor& logits_gradient, const at::Tensor& value_gradient) override {
    const at::Tensor logits = logits_gradient.contiguous(), value = value_gradient.contiguous();
    const int64_t rows = logits.size(0), size = logits.size(1);
    float* to = pass_->output_gradient();
    copy_rows(logits.const_data_ptr<float>(), size, to, pass_->output_row(), rows, size);
    copy_rows(value.const_data_ptr<float>(), 1, to + size, pass_->output_row(), rows, 1);
    pass_->backward(backend_->layers_with_gradients());
  }

 private:
  std::shared_ptr<DenseBackend> backend_;
  std::shared_ptr<DensePass> pass_;
};

class FusedCriticRecording : public QRecording {
 public:
  FusedCriticRecording(at::Tensor output, int64_t action_size, std::shared_ptr<DenseBackend> backend,
                       std::shared_ptr<DensePass> pass)
      : QRecording(std::move(output)),
        action_size_(action_size),
        backend_(std::move(backend)),
        pass_(std::move(pass)) {}

  void backward(const at::Tensor& gradient) override {
    place(gradient);
    pass_->backward(backend_->layers_with_gradients());
  }
  at::Tensor action_gradient(const at::Tensor& gradient) override {
    place(gradient);
    const std::vector<internal::DenseLayer>& layers = backend_->layers();
    at::Tensor out = torch::empty({gradient.size(0), action_size_});
    const int size = static_cast<int>(action_size_);
    pass_->input_gradient(layers, layers.front().in - size, size, out.mutable_data_ptr<float>(), action_size_);
    return out;
  }

 private:
  void place(const at::Tensor& gradient) {
    const at::Tensor from = gradient.contiguous();
    copy_rows(from.const_data_ptr<float>(), 1, pass_->output_gradient(), pass_->output_row(), from.size(0), 1);
  }

  int64_t action_size_;
  std::shared_ptr<DenseBackend> backend_;
  std::shared_ptr<DensePass> pass_;
};

}  // namespace

bool DenseLayers::is_fused_for(const at::Tensor& input) const { return backend_ && backend_->fits(input); }

#else

bool DenseLayers::is_fused_for(const at::Tensor&) const { return false; }

#endif

ReluMlp::ReluMlp(const ModelSpec& spec, const std::vector<int64_t>& hidden)
    : spec_(spec), layers_(*this, flat_size(spec, "mlp64 or mlp256"), hidden, spec.policy_size() + 1) {}

PolicyValue ReluMlp::forward_with_torch(const at::Tensor& obs) const {
  const at::Tensor out = internal::dense_with_torch(layers_.parameters(), internal::flat_floats(obs));
  const int64_t size = spec_.policy_size();
  return {out.narrow(1, 0, size), out.select(1, size)};
}

PolicyValue ReluMlp::forward(const at::Tensor& obs) {
#ifdef PARL_HAS_DENSE_KERNELS
  if (is_fused_for(obs) && !at::GradMode::is_enabled()) {
    const std::shared_ptr<DensePass> pass = layers_.backend()->take();
    const float* output = run(*layers_.backend(), *pass, obs, nullptr);
    return read_policy(output, pass->output_row(), obs.size(0), spec_.policy_size());
  }
#endif
  return forward_with_torch(obs);
}

std::unique_ptr<Recording> ReluMlp::record(const at::Tensor& obs) {
#ifdef PARL_HAS_DENSE_KERNELS
  if (is_fused_for(obs)) {
    torch::NoGradGuard no_grad;
    std::shared_ptr<DensePass> pass = layers_.backend()->take();
    const float* output = run(*layers_.backend(), *pass, obs, nullptr);
    PolicyValue out = read_policy(output, pass->output_row(), obs.size(0), spec_.policy_size());
    return std::make_unique<FusedMlpRecording>(std::move(out), layers_.backend(), std::move(pass));
  }
#endif
  return Model::record(obs);
}

MlpCritic::MlpCritic(const ModelSpec& spec, const std::vector<int64_t>& hidden)
    : layers_(*this, critic_input(spec), hidden, 1) {}

at::Tensor MlpCritic::forward_with_torch(const at::Tensor& obs, const at::Tensor& action) const {
  const at::Tensor input = at::cat({internal::flat_floats(obs), action}, 1);
  return internal::dense_with_torch(layers_.parameters(), input).squeeze(-1);
}

at::Tensor MlpCritic::forward(const at::Tensor& obs, const at::Tensor& action) {
#ifdef PARL_HAS_DENSE_KERNELS
  if (is_fused_for(obs) && !at::GradMode::is_enabled()) {
    const std::shared_ptr<DensePass> pass = layers_.backend()->take();
    const float* output = run(*layers_.backend(), *pass, obs, &action);
    return read_q(output, pass->output_row(), obs.size(0));
  }
#endif
  return forward_with_torch(obs, action);
}

std::unique_ptr<QRecording> MlpCritic::record(const at::Tensor& obs, const at::Tensor& action) {
#ifdef PARL_HAS_DENSE_KERNELS
  if (is_fused_for(obs)) {
    torch::NoGradGuard no_grad;
    std::shared_ptr<DensePass> pass = layers_.backend()->take();
    const float* output = run(*layers_.backend(), *pass, obs, &action);
    at::Tensor q = read_q(output, pass->output_row(), obs.size(0));
    return std::make_unique<FusedCriticRecording>(std::move(q), action.size(1), layers_.backend(), std::move(pass));
  }
#endif
  return QModel::record(obs, action);
}

}  // namespace parl
