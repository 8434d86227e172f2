#include "parl/algorithms/epsilon_greedy.h"

#include <torch/torch.h>

#include <algorithm>

#include "parl/agent/categorical.h"
#include "parl/agent/nonfinite.h"
#include "parl/agent/tensor_array.h"

namespace parl {
namespace {

const std::string kEpsilon = std::string(kExploration) + "epsilon";

}  // namespace

void explore(at::Tensor& action, const at::Tensor& uniforms, const at::Tensor& q, double epsilon, bool masked) {
  int64_t* a = action.mutable_data_ptr<int64_t>();
  const int64_t actions = q.size(1);
  const auto may_be = [](float value) { return value > kIllegalLogit / 2; };
  for (int64_t i = 0; i < action.numel(); ++i) {
    const double u = uniforms.const_data_ptr<float>()[i];
    if (u >= epsilon) continue;
    const float* row = q.const_data_ptr<float>() + i * actions;
    const int64_t legal = masked ? std::count_if(row, row + actions, may_be) : 0;
    const int64_t count = legal > 0 ? legal : actions;
    int64_t chosen = std::min(count - 1, static_cast<int64_t>(u / epsilon * static_cast<double>(count)));
    for (a[i] = 0; (legal > 0 && !may_be(row[a[i]])) || chosen-- > 0;) ++a[i];
  }
}

void append_epsilon(Weights& weights, double epsilon) {
  weights.entries.push_back({kEpsilon, Array::from<float>({static_cast<float>(epsilon)})});
}

double epsilon_of(const Weights& weights, double otherwise) {
  const Array* epsilon = find_entry(weights, kEpsilon);
  return epsilon ? epsilon->data<float>()[0] : otherwise;
}

ActOutput greedy_of(const at::Tensor& q) {
  if (!at::isfinite(q).all().item<bool>()) {
    throw NonFiniteError("q", "the Q-values contain NaN or inf; the weights have diverged: lower the learning rate");
  }
  return {q.argmax(1), q, std::get<0>(q.max(1))};
}

}  // namespace parl
