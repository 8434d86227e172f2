#include "parl/algorithms/vtrace.h"

#include <torch/torch.h>

#include <limits>
#include <vector>

#include "parl/agent/categorical.h"
#include "parl/core/check.h"

namespace parl {
namespace {

float clip_of(double clip) { return clip > 0 ? static_cast<float>(clip) : std::numeric_limits<float>::infinity(); }

// The value after step i: 0 where it terminated, that of the final observation where it was truncated (those are taken
// from the end), else that of the next row.
float next_value_of(const VtraceUnroll& u, int64_t i, int64_t& finals) {
  if (u.terminated[i]) return 0;
  if (!u.truncated[i]) return u.value[i + u.stride];
  PARL_CHECK(finals > 0, "fewer values of final observations than truncated steps");
  return u.final_value[--finals];
}

}  // namespace

void vtrace(const VtraceOptions& options, const VtraceUnroll& u) {
  const float gamma = static_cast<float>(options.gamma), lambda = static_cast<float>(options.lambda);
  const float rho_clip = clip_of(options.rho_clip), c_clip = clip_of(options.c_clip);
  const float pg_rho_clip = clip_of(options.pg_rho_clip);
  int64_t finals = u.final_values;
  float acc = 0;
  for (int64_t t = u.length - 1; t >= 0; --t) {
    const int64_t i = t * u.stride;
    const bool ended = u.terminated[i] || u.truncated[i];
    const float next_value = next_value_of(u, i, finals);
    const float value = u.value[i], ratio = u.ratio[i];
    // vs[t+1] is still the following iteration's result: acc holds vs[t+1] - V(obs[t+1]).
    const float q = ended || t == u.length - 1 ? next_value : next_value + acc;
    const float target = u.reward[i] + gamma * q - value;
    u.advantage[i] = options.weigh_advantage ? std::min(pg_rho_clip, ratio) * target : target;
    const float delta = std::min(rho_clip, ratio) * (u.reward[i] + gamma * next_value - value);
    acc = ended ? delta : delta + gamma * lambda * std::min(c_clip, ratio) * acc;
    u.vs[i] = value + acc;
  }
  PARL_CHECK_EQ(finals, 0, "more values of final observations than truncated steps");
}

void gae(double gamma, double lambda, const VtraceUnroll& u) {
  const float discount = static_cast<float>(gamma), decay = static_cast<float>(gamma * lambda);
  int64_t finals = u.final_values;
  float advantage = 0;
  for (int64_t t = u.length - 1; t >= 0; --t) {
    const int64_t i = t * u.stride;
    const float delta = u.reward[i] + discount * next_value_of(u, i, finals) - u.value[i];
    advantage = u.terminated[i] || u.truncated[i] ? delta : delta + decay * advantage;
    u.advantage[i] = advantage;
    u.vs[i] = u.value[i] + advantage;
  }
  PARL_CHECK_EQ(finals, 0, "more values of final observations than truncated steps");
}

VtraceResult vtrace(const VtraceOptions& options, const at::Tensor& logits, const at::Tensor& behaviour_logits,
                    const at::Tensor& action, const at::Tensor& reward, const at::Tensor& terminated,
                    const at::Tensor& truncated, const at::Tensor& value, const at::Tensor& final_value) {
  PARL_CHECK(logits.dim() == 3 && logits.sizes() == behaviour_logits.sizes(), "logits must both be [B, T, A]");
  const int64_t b = logits.size(0), t = logits.size(1), a = logits.size(2);
  for (const at::Tensor& tensor : {logits, behaviour_logits, action, reward, terminated, truncated, value}) {
    PARL_CHECK(tensor.is_cpu() && tensor.is_contiguous() && tensor.size(0) == b, "vtrace takes contiguous CPU tensors");
  }
  PARL_CHECK(value.size(1) == t + 1, "value must be [B, T+1]");
  VtraceResult out{torch::empty({b, t}), torch::empty({b, t}), torch::empty({b, t})};
  std::vector<float> row(static_cast<size_t>(2 * a));
  float* ratio = out.ratio.mutable_data_ptr<float>();
  for (int64_t i = 0; i < b * t; ++i) {
    log_softmax(logits.const_data_ptr<float>() + i * a, a, row.data());
    log_softmax(behaviour_logits.const_data_ptr<float>() + i * a, a, row.data() + a);
    const int64_t chosen = action.const_data_ptr<int64_t>()[i];
    ratio[i] = std::exp(row[static_cast<size_t>(chosen)] - row[static_cast<size_t>(a + chosen)]);
  }
  const float* finals = final_value.defined() ? final_value.const_data_ptr<float>() : nullptr;
  for (int64_t i = 0; i < b; ++i) {
    const bool* term = terminated.const_data_ptr<bool>() + i * t;
    const bool* trunc = truncated.const_data_ptr<bool>() + i * t;
    int64_t count = 0;
    for (int64_t k = 0; k < t; ++k) count += trunc[k] && !term[k];
    vtrace(options,
           VtraceUnroll{t, 1, ratio + i * t, reward.const_data_ptr<float>() + i * t, term, trunc,
                        value.const_data_ptr<float>() + i * (t + 1), finals, count,
                        out.vs.mutable_data_ptr<float>() + i * t, out.advantage.mutable_data_ptr<float>() + i * t});
    finals += count;
  }
  return out;
}

}  // namespace parl
