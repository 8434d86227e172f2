#include "parl/models/lstm.h"

#include <torch/torch.h>

#include "parl/agent/init.h"
#include "parl/core/check.h"

namespace parl {
namespace {

// Gate k of four: a view.
at::Tensor gate(const at::Tensor& gates, int64_t k) {
  const int64_t size = gates.size(-1) / 4;
  return gates.narrow(-1, k * size, size);
}

// gates [B, 4H] before and after the functions; c [B, H] before.
struct Cell {
  at::Tensor h, c, tanh_c;
};
Cell advance(const at::Tensor& gates, const at::Tensor& c) {
  at::Tensor in_and_forget = gates.narrow(-1, 0, gates.size(-1) / 2), g = gate(gates, 2), o = gate(gates, 3);
  in_and_forget.sigmoid_();
  g.tanh_();
  o.sigmoid_();
  Cell out;
  out.c = (gate(gates, 1) * c).addcmul_(gate(gates, 0), g);
  out.tanh_c = out.c.tanh();
  out.h = o * out.tanh_c;
  return out;
}

// Which columns of reset [B, L] have any.
std::vector<bool> any_of(const at::Tensor& reset) {
  const at::Tensor any = reset.any(0).cpu();
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
    const at::Tensor carried = reset.logical_not().to(at::kFloat).unsqueeze(-1);  // [B, L, 1]
    const std::vector<bool> any = any_of(reset);
    at::Tensor gates = torch::empty_like(input), hs = torch::empty({unrolls, length, size}, input.options());
    at::Tensor cs = torch::empty_like(hs), tanh_cs = torch::empty_like(hs);
    const at::Tensor transposed = weight.t();
    at::Tensor h = state.narrow(1, 0, size), c = state.narrow(1, size, size);
    for (int64_t l = 0; l < length; ++l) {
      if (any[static_cast<size_t>(l)]) {
        h = h * carried.select(1, l);
        c = c * carried.select(1, l);
      }
      at::Tensor now = gates.select(1, l);
      at::addmm_out(now, input.select(1, l), h, transposed);
      const Cell cell = advance(now, c);
      hs.select(1, l).copy_(cell.h);
      cs.select(1, l).copy_(cell.c);
      tanh_cs.select(1, l).copy_(cell.tanh_c);
      h = cell.h, c = cell.c;
    }
    context->save_for_backward({gates, hs, cs, tanh_cs, state, carried, weight});
    context->saved_data["any"] = any;
    context->set_materialize_grads(false);
    return {hs, cs};
  }

  static Tensors backward(Context* context, Tensors outputs) {
    const Tensors saved = context->get_saved_variables();
    const at::Tensor &gates = saved[0], &hs = saved[1], &cs = saved[2], &tanh_cs = saved[3], &state = saved[4],
                     &carried = saved[5], &weight = saved[6];
    const c10::List<bool> any = context->saved_data["any"].toBoolList();
    const int64_t length = hs.size(1), size = hs.size(2);
    const auto given = [&](size_t output, int64_t l) {
      return outputs[output].defined() ? outputs[output].select(1, l) : at::Tensor();
    };
    const auto sum = [](const at::Tensor& a, const at::Tensor& b) {
      return a.defined() && b.defined() ? a + b : a.defined() ? a : b;
    };
    at::Tensor d_gates = torch::empty_like(gates), d_h, d_c;  // of the later steps
    const at::Tensor first_c = state.narrow(1, size, size);
    for (int64_t l = length - 1; l >= 0; --l) {
      const at::Tensor now = gates.select(1, l), i = gate(now, 0), f = gate(now, 1), g = gate(now, 2), o = gate(now, 3),
                       tanh_c = tanh_cs.select(1, l);
      at::Tensor before = l > 0 ? cs.select(1, l - 1) : first_c;
      const bool fresh = any.get(static_cast<size_t>(l));
      if (fresh) before = before * carried.select(1, l);
      at::Tensor dh = sum(given(0, l), d_h);
      if (!dh.defined()) dh = torch::zeros_like(tanh_c);
      const at::Tensor dc = sum(dh * o * (1 - tanh_c * tanh_c), sum(given(1, l), d_c));
      at::Tensor d_now = d_gates.select(1, l);
      gate(d_now, 0).copy_(dc * g * i * (1 - i));
      gate(d_now, 1).copy_(dc * before * f * (1 - f));
      gate(d_now, 2).copy_(dc * i * (1 - g * g));
      gate(d_now, 3).copy_(dh * tanh_c * o * (1 - o));
      d_h = at::mm(d_now, weight);
      d_c = dc * f;
      if (fresh) {
        d_h.mul_(carried.select(1, l));
        d_c.mul_(carried.select(1, l));
      }
    }
    at::Tensor earlier = torch::empty_like(hs);  // h before each step
    earlier.select(1, 0).copy_(state.narrow(1, 0, size));
    if (length > 1) earlier.narrow(1, 1, length - 1).copy_(hs.narrow(1, 0, length - 1));
    earlier.mul_(carried);
    return {d_gates, at::cat({d_h, d_c}, 1), at::Tensor(), at::mm(d_gates.flatten(0, 1).t(), earlier.flatten(0, 1))};
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

}  // namespace

std::pair<at::Tensor, at::Tensor> lstm_steps(const at::Tensor& input, const at::Tensor& state, const at::Tensor& reset,
                                             const at::Tensor& weight) {
  PARL_CHECK(input.dim() == 3 && input.size(2) == weight.size(0) && weight.size(0) == 4 * weight.size(1),
             "an LSTM takes gates [B, L, 4H] and weights [4H, H]");
  PARL_CHECK(state.dim() == 2 && state.size(0) == input.size(0) && state.size(1) == 2 * weight.size(1),
             "an LSTM of {} units takes a memory of [{}, {}]", weight.size(1), input.size(0), 2 * weight.size(1));
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
