#include "parl/models/lstm.h"

#include <torch/torch.h>

#include "parl/agent/init.h"
#include "parl/core/check.h"
#include "parl/models/internal/lstm_kernels.h"

namespace parl {
namespace {

// Gate k of four: a view.
at::Tensor gate(const at::Tensor& gates, int64_t k) {
  const int64_t size = gates.size(-1) / 4;
  return gates.narrow(-1, k * size, size);
}

// What a sequence's passes share. Rows are [B, L, ...]; column l of them is one step.
struct Run {
  at::Tensor gates, h, c, tanh_c;  // [B, L, 4H], [B, L, H]: after each step
  at::Tensor first, carried;       // the memory before the first [B, 2H]; 1, or 0 where it is reset [B, L, 1]

  int64_t length() const { return h.size(1); }
  int64_t size() const { return h.size(2); }
  bool by_hand() const { return gates.is_cpu() && gates.scalar_type() == at::kFloat; }
  at::Tensor c_before(int64_t l) const { return l > 0 ? c.select(1, l - 1) : first.narrow(1, size(), size()); }

  internal::LstmStep step(int64_t l) const {
    const at::Tensor before = c_before(l);
    const auto column = [&](const at::Tensor& all) { return all.mutable_data_ptr<float>() + l * all.size(2); };
    return {gates.size(0),    size(),          column(gates),     gates.stride(0), before.const_data_ptr<float>(),
            before.stride(0), column(carried), carried.stride(0), column(h),       column(c),
            column(tanh_c),   h.stride(0)};
  }

  // The gates' functions and the memory after step l, the gates' sums given.
  void advance(int64_t l) const {
    if (by_hand()) return internal::lstm_forward(step(l));
    at::Tensor now = gates.select(1, l), in_and_forget = now.narrow(1, 0, 2 * size()), g = gate(now, 2),
               o = gate(now, 3);
    in_and_forget.sigmoid_();
    g.tanh_();
    o.sigmoid_();
    c.select(1, l).copy_(gate(now, 1) * c_before(l) * carried.select(1, l) + gate(now, 0) * g);
    tanh_c.select(1, l).copy_(c.select(1, l).tanh());
    h.select(1, l).copy_(o * tanh_c.select(1, l));
  }

  // Of step l: later_h and later_c [B, H] are the gradients that later steps gave to h and c, d_h and d_c [B, L, H] (or
  // undefined) those of the outputs. Leaves d_gates [B, L, 4H] and in later_c the gradient of c before.
  void retreat(int64_t l, const at::Tensor& d_h, const at::Tensor& d_c, at::Tensor& later_h, at::Tensor& later_c,
               const at::Tensor& d_gates) const {
    if (by_hand()) {
      const auto column = [&](const at::Tensor& all) {
        return all.defined() ? all.const_data_ptr<float>() + l * size() : nullptr;
      };
      return internal::lstm_backward(
          step(l), {column(d_h), column(d_c), later_h.mutable_data_ptr<float>(), later_c.mutable_data_ptr<float>(),
                    d_gates.mutable_data_ptr<float>() + l * 4 * size()});
    }
    const at::Tensor now = gates.select(1, l), i = gate(now, 0), f = gate(now, 1), g = gate(now, 2), o = gate(now, 3);
    const at::Tensor t = tanh_c.select(1, l), keep = carried.select(1, l), d_now = d_gates.select(1, l);
    if (d_h.defined()) later_h.add_(d_h.select(1, l));
    if (d_c.defined()) later_c.add_(d_c.select(1, l));
    later_c.add_(later_h * o * (1 - t * t));
    gate(d_now, 0).copy_(later_c * g * i * (1 - i));
    gate(d_now, 1).copy_(later_c * c_before(l) * keep * f * (1 - f));
    gate(d_now, 2).copy_(later_c * i * (1 - g * g));
    gate(d_now, 3).copy_(later_h * t * o * (1 - o));
    later_c.mul_(f * keep);
  }
};

// Which columns of carried [B, L, 1] have a reset.
std::vector<bool> resets_of(const at::Tensor& carried) {
  const at::Tensor any = carried.eq(0).any(0).cpu();
  const bool* data = any.const_data_ptr<bool>();
  return std::vector<bool>(data, data + any.numel());
}

// The memory's steps and their backward pass.
class Steps : public torch::autograd::Function<Steps> {
 public:
  using Context = torch::autograd::AutogradContext;
  using Tensors = torch::autograd::variable_list;

  static Tensors forward(Context* context, const at::Tensor& input, const at::Tensor& state, const at::Tensor& reset,
                         const at::Tensor& weight) {
    const int64_t unrolls = input.size(0), length = input.size(1), size = weight.size(1);
    Run run;
    run.gates = torch::empty({unrolls, length, 4 * size}, input.options());
    run.h = torch::empty({unrolls, length, size}, input.options());
    run.c = torch::empty_like(run.h), run.tanh_c = torch::empty_like(run.h);
    run.first = state.contiguous();
    run.carried = reset.logical_not().to(at::kFloat).unsqueeze(-1).contiguous();
    const std::vector<bool> resets = resets_of(run.carried);
    const at::Tensor transposed = weight.t();
    for (int64_t l = 0; l < length; ++l) {
      at::Tensor h = l > 0 ? run.h.select(1, l - 1) : run.first.narrow(1, 0, size), now = run.gates.select(1, l);
      if (resets[static_cast<size_t>(l)]) h = h * run.carried.select(1, l);
      at::addmm_out(now, input.select(1, l), h, transposed);
      run.advance(l);
    }
    context->save_for_backward({run.gates, run.h, run.c, run.tanh_c, run.first, run.carried, weight});
    context->set_materialize_grads(false);
    return {run.h, run.c};
  }

  static Tensors backward(Context* context, Tensors outputs) {
    const Tensors saved = context->get_saved_variables();
    const Run run{saved[0], saved[1], saved[2], saved[3], saved[4], saved[5]};
    const at::Tensor& weight = saved[6];
    const auto dense = [](const at::Tensor& t) { return t.defined() ? t.contiguous() : t; };
    const at::Tensor d_h = dense(outputs[0]), d_c = dense(outputs[1]), d_gates = torch::empty_like(run.gates);
    const std::vector<bool> resets = resets_of(run.carried);
    at::Tensor later_h = torch::zeros({run.h.size(0), run.size()}, run.h.options()),
               later_c = torch::zeros_like(later_h);
    for (int64_t l = run.length() - 1; l >= 0; --l) {
      run.retreat(l, d_h, d_c, later_h, later_c, d_gates);
      at::mm_out(later_h, d_gates.select(1, l), weight);
      if (resets[static_cast<size_t>(l)]) later_h.mul_(run.carried.select(1, l));
    }
    at::Tensor earlier = torch::empty_like(run.h);  // h before each step
    earlier.select(1, 0).copy_(run.first.narrow(1, 0, run.size()));
    if (run.length() > 1) earlier.narrow(1, 1, run.length() - 1).copy_(run.h.narrow(1, 0, run.length() - 1));
    earlier.mul_(run.carried);
    return {d_gates, at::cat({later_h, later_c}, 1), at::Tensor(),
            at::mm(d_gates.flatten(0, 1).t(), earlier.flatten(0, 1))};
  }
};

// The trunk's recordings, and autograd's graph from their outputs to the heads.
class LstmRecording : public Recording {
 public:
  LstmRecording(std::vector<std::unique_ptr<Recording>> trunk, at::Tensor features, PolicyValue output)
      : Recording(std::move(output)), trunk_(std::move(trunk)), features_(std::move(features)) {}
  void backward(const at::Tensor& logits_gradient, const at::Tensor& value_gradient) override {
    torch::autograd::backward({output().logits, output().value}, {logits_gradient, value_gradient});
    int64_t row = 0;
    for (const auto& piece : trunk_) {
      const int64_t rows = piece->output().logits.size(0);
      piece->backward(features_.grad().narrow(0, row, rows), at::Tensor());
      row += rows;
    }
  }

 private:
  std::vector<std::unique_ptr<Recording>> trunk_;
  at::Tensor features_;
};

void check_steps(const at::Tensor& input, const at::Tensor& state, const at::Tensor& weight) {
  PARL_CHECK(input.dim() == 3 && input.size(2) == weight.size(0) && weight.size(0) == 4 * weight.size(1),
             "an LSTM takes gates [B, L, 4H] and weights [4H, H]");
  PARL_CHECK(state.dim() == 2 && state.size(0) == input.size(0) && state.size(1) == 2 * weight.size(1),
             "an LSTM of {} units takes a memory of [{}, {}]", weight.size(1), input.size(0), 2 * weight.size(1));
}

// One step for acting: lstm_steps() where nothing is kept for a gradient. input [N, 4H], state [N, 2H];
// gives the memory after it.
at::Tensor act_step(const at::Tensor& input, const at::Tensor& state, const at::Tensor& weight) {
  const int64_t rows = input.size(0), size = weight.size(1);
  const at::Tensor gates = at::addmm(input, state.narrow(1, 0, size), weight.t());
  const at::Tensor next = at::empty({rows, 2 * size}, state.options()), tanh_c = at::empty_like(next);
  const float carried = 1;
  float* h = next.mutable_data_ptr<float>();
  internal::lstm_forward({rows, size, gates.mutable_data_ptr<float>(), gates.stride(0),
                          state.const_data_ptr<float>() + size, state.stride(0), &carried, 0, h, h + size,
                          tanh_c.mutable_data_ptr<float>(), next.stride(0)});
  return next;
}

}  // namespace

std::pair<at::Tensor, at::Tensor> lstm_steps(const at::Tensor& input, const at::Tensor& state, const at::Tensor& reset,
                                             const at::Tensor& weight) {
  check_steps(input, state, weight);
  auto out = Steps::apply(input, state, reset, weight);
  return {out[0], out[1]};
}

ModelSpec trunk_spec(ModelSpec spec) {
  spec.num_actions = spec.action_size = 0;
  spec.action_low.clear(), spec.action_high.clear();
  return spec;
}

LstmModel::LstmModel(const ModelSpec& spec, std::shared_ptr<Model> trunk, int64_t features, int64_t hidden)
    : trunk_(std::move(trunk)), hidden_(hidden) {
  PARL_CHECK(trunk_ && features > 0 && hidden > 0, "an LSTM needs a trunk, its number of features and a size");
  register_module("trunk", trunk_);
  auto lstm = register_module("lstm", std::make_shared<torch::nn::Module>("lstm"));
  weight_ih_ = lstm->register_parameter("weight_ih", torch::empty({4 * hidden, features}));
  weight_hh_ = lstm->register_parameter("weight_hh", torch::empty({4 * hidden, hidden}));
  bias_ = lstm->register_parameter("bias", torch::empty({4 * hidden}));
  orthogonal_init(weight_ih_, bias_, 1.0);
  orthogonal_init(weight_hh_, at::Tensor(), 1.0);
  {
    torch::NoGradGuard no_grad;
    gate(bias_, 1).fill_(1);
  }
  const bool gaussian = spec.action_size > 0;
  torch::nn::Linear policy(hidden, gaussian ? spec.action_size : spec.num_actions), value(hidden, 1);
  orthogonal_init(policy->weight, policy->bias, kPolicyGain);
  orthogonal_init(value->weight, value->bias, 1.0);
  register_module("policy", policy);
  register_module("value", value);
  policy_weight_ = policy->weight, policy_bias_ = policy->bias;
  value_weight_ = value->weight, value_bias_ = value->bias;
  if (gaussian) log_std_ = register_parameter("log_std", torch::zeros({spec.action_size}));
}

PolicyValue LstmModel::heads(const at::Tensor& h) const {
  at::Tensor policy = at::linear(h, policy_weight_, policy_bias_);
  if (log_std_.defined()) policy = at::cat({policy, log_std_.expand_as(policy)}, 1);
  return {policy, at::linear(h, value_weight_, value_bias_).squeeze(-1)};
}

StepOutput LstmModel::step(const at::Tensor& obs, const at::Tensor& state) {
  const at::Tensor input = at::linear(trunk_->forward(obs).logits, weight_ih_, bias_);
  check_steps(input.unsqueeze(1), state, weight_hh_);
  if (!at::GradMode::is_enabled() && input.is_cpu() && input.scalar_type() == at::kFloat) {
    const at::Tensor next = act_step(input, state.contiguous(), weight_hh_);
    return {heads(next.narrow(1, 0, hidden_)), next};
  }
  const at::Tensor none = torch::zeros({obs.size(0), 1}, state.options().dtype(at::kBool));
  const auto [h, c] = lstm_steps(input.unsqueeze(1), state, none, weight_hh_);
  return {heads(h.squeeze(1)), at::cat({h, c}, 2).squeeze(1)};
}

std::vector<at::Tensor> LstmModel::pieces_of(const at::Tensor& rows) const {
  const int64_t best = trunk_->preferred_rows();
  return best > 0 ? rows.split(best) : std::vector<at::Tensor>{rows};
}

SequenceOutput LstmModel::remember(const at::Tensor& features, const Sequence& in) const {
  const int64_t unrolls = in.obs.size(0), length = in.obs.size(1);
  const at::Tensor input = at::linear(features, weight_ih_, bias_).view({unrolls, length, 4 * hidden_});
  const auto [h, c] = lstm_steps(input, in.state, in.reset, weight_hh_);
  SequenceOutput out;
  out.output = heads(h.flatten(0, 1));
  if (in.keep.defined()) {
    const auto kept = [&](const at::Tensor& all) { return all.detach().flatten(0, 1).index_select(0, in.keep); };
    out.kept = at::cat({kept(h), kept(c)}, 1);
  }
  return out;
}

SequenceOutput LstmModel::sequence(const Sequence& in) {
  std::vector<at::Tensor> features;
  for (const at::Tensor& rows : pieces_of(in.obs.flatten(0, 1))) features.push_back(trunk_->forward(rows).logits);
  return remember(at::cat(features), in);
}

SequenceRecording LstmModel::record_sequence(const Sequence& in) {
  torch::AutoGradMode grad(true);
  std::vector<std::unique_ptr<Recording>> trunk;
  std::vector<at::Tensor> outputs;
  for (const at::Tensor& rows : pieces_of(in.obs.flatten(0, 1))) {
    trunk.push_back(trunk_->record(rows));
    outputs.push_back(trunk.back()->output().logits.detach());
  }
  const at::Tensor features = at::cat(outputs).requires_grad_();
  SequenceOutput out = remember(features, in);
  return {std::make_unique<LstmRecording>(std::move(trunk), features, std::move(out.output)), std::move(out.kept)};
}

}  // namespace parl
