#include "parl/algorithms/vtrace.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <vector>

#include "parl/core/check.h"
#include "parl/core/rng.h"

namespace parl {
namespace {

// Asymmetric, off-policy unrolls from logits and actions, with every kind of end.
struct Case {
  int64_t b, t, a;
  at::Tensor logits, behaviour, action, reward, terminated, truncated, value, final_value;

  Case(uint64_t seed, int64_t b_, int64_t t_, int64_t a_ = 4, double end_probability = 0.15) : b(b_), t(t_), a(a_) {
    CounterRng rng(seed, 0);
    auto normal = [&](std::vector<int64_t> shape, double scale) {
      at::Tensor x = torch::empty(shape);
      for (int64_t i = 0; i < x.numel(); ++i) {
        const double u = rng.uniform_double() + 1e-12, v = rng.uniform_double();
        x.mutable_data_ptr<float>()[i] =
            static_cast<float>(scale * std::sqrt(-2 * std::log(u)) * std::cos(6.2831853 * v));
      }
      return x;
    };
    logits = normal({b, t, a}, 1.2);
    behaviour = normal({b, t, a}, 1.2);
    reward = normal({b, t}, 1);
    value = normal({b, t + 1}, 2) + 3;
    action = torch::zeros({b, t}, at::kLong);
    terminated = torch::zeros({b, t}, at::kBool);
    truncated = torch::zeros({b, t}, at::kBool);
    for (int64_t i = 0; i < b * t; ++i) {
      action.mutable_data_ptr<int64_t>()[i] = rng.below(static_cast<uint32_t>(a));
      terminated.mutable_data_ptr<bool>()[i] = rng.uniform() < end_probability;
      truncated.mutable_data_ptr<bool>()[i] = rng.uniform() < end_probability;
    }
    refresh_finals(seed);
  }
  void refresh_finals(uint64_t seed) {
    const int64_t n = truncated.logical_and(terminated.logical_not()).sum().item<int64_t>();
    CounterRng rng(seed, 1);
    final_value = torch::empty({n});
    for (int64_t i = 0; i < n; ++i) final_value.mutable_data_ptr<float>()[i] = 10 + 5 * rng.uniform();
  }
  VtraceResult run(const VtraceOptions& options) const {
    return vtrace(options, logits, behaviour, action, reward, terminated, truncated, value, final_value);
  }
  double ratio(int64_t i, int64_t k) const {
    auto log_pi = [&](const at::Tensor& l) {
      return at::log_softmax(l[i][k].to(at::kDouble), 0)[action[i][k].item<int64_t>()].item<double>();
    };
    return std::exp(log_pi(logits) - log_pi(behaviour));
  }
};

double bounded(double clip, double x) { return clip > 0 ? std::min(clip, x) : x; }

// Equation 1 of the paper as it stands: sums of products, in double, O(T^2).
void expect_equals_definition(const Case& c, const VtraceOptions& o) {
  const VtraceResult got = c.run(o);
  int64_t used = 0;
  for (int64_t i = 0; i < c.b; ++i) {
    std::vector<double> next, delta, trace, vs;
    std::vector<bool> ended;
    for (int64_t k = 0; k < c.t; ++k) {
      const bool term = c.terminated[i][k].item<bool>(), trunc = c.truncated[i][k].item<bool>();
      next.push_back(term ? 0 : trunc ? c.final_value[used++].item<double>() : c.value[i][k + 1].item<double>());
      ended.push_back(term || trunc);
      const double r = c.ratio(i, k);
      delta.push_back(bounded(o.rho_clip, r) *
                      (c.reward[i][k].item<double>() + o.gamma * next.back() - c.value[i][k].item<double>()));
      trace.push_back(o.lambda * bounded(o.c_clip, r));
    }
    for (int64_t s = 0; s < c.t; ++s) {
      double sum = c.value[i][s].item<double>();
      for (int64_t k = s; k < c.t; ++k) {
        double product = 1;
        bool reaches = true;
        for (int64_t j = s; j < k; ++j) product *= o.gamma * trace[j], reaches = reaches && !ended[j];
        if (reaches) sum += product * delta[k];
      }
      vs.push_back(sum);
      EXPECT_NEAR(got.vs[i][s].item<double>(), sum, 1e-4 * (1 + std::abs(sum)));
    }
    for (int64_t k = 0; k < c.t; ++k) {
      const double q = ended[k] || k == c.t - 1 ? next[k] : vs[k + 1];
      const double target = c.reward[i][k].item<double>() + o.gamma * q - c.value[i][k].item<double>();
      const double expected = o.weigh_advantage ? bounded(o.pg_rho_clip, c.ratio(i, k)) * target : target;
      EXPECT_NEAR(got.advantage[i][k].item<double>(), expected, 1e-4 * (1 + std::abs(expected)));
    }
  }
}

// On-policy, V-trace's value targets are the lambda-returns that GAE's advantages are measured against.
TEST(Gae, EqualsVtraceTargetsOnPolicy) {
  Case c(11, 5, 9);
  c.logits = c.behaviour;
  VtraceOptions options;
  options.gamma = 0.9, options.lambda = 0.7;
  const VtraceResult expected = c.run(options);
  at::Tensor vs = torch::empty({c.b, c.t}), advantage = torch::empty({c.b, c.t});
  const float* finals = c.final_value.const_data_ptr<float>();
  for (int64_t i = 0; i < c.b; ++i) {
    const bool* term = c.terminated.const_data_ptr<bool>() + i * c.t;
    const bool* trunc = c.truncated.const_data_ptr<bool>() + i * c.t;
    int64_t count = 0;
    for (int64_t k = 0; k < c.t; ++k) count += trunc[k] && !term[k];
    VtraceUnroll unroll{c.t,
                        1,
                        nullptr,
                        c.reward.const_data_ptr<float>() + i * c.t,
                        term,
                        trunc,
                        c.value.const_data_ptr<float>() + i * (c.t + 1),
                        finals,
                        count,
                        vs.mutable_data_ptr<float>() + i * c.t,
                        advantage.mutable_data_ptr<float>() + i * c.t};
    gae(0.9, 0.7, unroll);
    finals += count;
  }
  EXPECT_TRUE(at::allclose(vs, expected.vs, 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(advantage, expected.vs - c.value.narrow(1, 0, c.t), 1e-5, 1e-5));
  const float one[] = {1, 1, 1};
  const bool no = false;
  float out[2];
  EXPECT_THROW(gae(0.9, 0.7, VtraceUnroll{1, 1, one, one, &no, &no, one, one, 1, out, out + 1}), Error);
  EXPECT_FALSE(at::allclose(advantage, expected.advantage, 1e-2, 1e-2));  // V-trace's looks one step ahead
}

TEST(Vtrace, EqualsTheDefinition) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    expect_equals_definition(Case(seed, 3, 9), {0.9, 1.0, 1.0, 1.0, 1.0, true});
    expect_equals_definition(Case(seed, 2, 6), {0.97, 0.9, 3.7, 0.8, 2.2, true});
    expect_equals_definition(Case(seed, 2, 5), {0.99, 0.95, 1.0, 1.0, 1.0, false});
    expect_equals_definition(Case(seed, 1, 7), {0.9, 1.0, 0, 0, 0, true});  // no clips
    expect_equals_definition(Case(seed, 4, 1), {0.9, 1.0, 1.0, 1.0, 1.0, true});
  }
}

// The targets of a trajectory that is cut where the episode ended must be those of the two pieces alone, the first of
// which bootstraps with V(final). V(final), V(reset observation) and V(obs[T]) differ and are not zero.
void expect_split(int64_t cut, bool terminated, bool both) {
  Case whole(7, 1, 8, 4, 0.0);
  whole.truncated[0][cut] = !terminated || both;
  whole.terminated[0][cut] = terminated || both;
  whole.refresh_finals(7);
  const bool bootstrap = !terminated && !both;
  if (bootstrap) whole.final_value[0] = 11.5;
  const VtraceOptions options{0.95, 0.97, 1.0, 1.0, 1.0, true};
  const VtraceResult joined = whole.run(options);

  Case first = whole, second = whole;
  auto cut_out = [&](Case& c, int64_t begin, int64_t n) {
    c.t = n;
    for (at::Tensor* x : {&c.logits, &c.behaviour, &c.action, &c.reward, &c.terminated, &c.truncated})
      *x = x->narrow(1, begin, n).contiguous();
    c.value = c.value.narrow(1, begin, n + 1).contiguous();
  };
  cut_out(first, 0, cut + 1);
  first.truncated.zero_();
  first.value = first.value.clone();
  first.value[0][cut + 1] = bootstrap ? 11.5 : 0.0;
  first.terminated[0][cut] = !bootstrap;
  first.final_value = torch::empty({0});
  const VtraceResult a = first.run(options);
  EXPECT_TRUE(at::allclose(joined.vs.narrow(1, 0, cut + 1), a.vs, 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(joined.advantage.narrow(1, 0, cut + 1), a.advantage, 1e-5, 1e-5));
  if (cut + 1 < 8) {
    cut_out(second, cut + 1, 8 - cut - 1);
    second.final_value = torch::empty({0});
    const VtraceResult b = second.run(options);
    EXPECT_TRUE(at::equal(joined.vs.narrow(1, cut + 1, 7 - cut), b.vs));
    EXPECT_TRUE(at::equal(joined.advantage.narrow(1, cut + 1, 7 - cut), b.advantage));
  }
}

TEST(Vtrace, TruncationEqualsSplitTrajectories) {
  for (int64_t cut : {0, 3, 6, 7}) expect_split(cut, false, false);
}
TEST(Vtrace, TerminationEqualsSplitTrajectories) {
  for (int64_t cut : {0, 3, 6, 7}) expect_split(cut, true, false);
}
TEST(Vtrace, TerminatedWinsOverTruncated) {
  for (int64_t cut : {2, 7}) expect_split(cut, false, true);
}

TEST(Vtrace, OnPolicyIsNStepReturns) {
  Case c(3, 1, 6, 4, 0.0);
  c.behaviour = c.logits;
  const VtraceResult got = c.run({0.9, 1.0, 1.0, 1.0, 1.0, true});
  double n_step = c.value[0][6].item<double>();
  for (int64_t k = 5; k >= 0; --k) {
    n_step = c.reward[0][k].item<double>() + 0.9 * n_step;
    EXPECT_NEAR(got.vs[0][k].item<double>(), n_step, 1e-4);
    EXPECT_NEAR(got.advantage[0][k].item<double>(), n_step - c.value[0][k].item<double>(), 1e-4);
    EXPECT_NEAR(got.ratio[0][k].item<double>(), 1, 1e-6);
  }
}

TEST(Vtrace, RatioIsTargetOverBehaviour) {  // not swapped: worked out by hand
  Case c(1, 1, 1, 2, 0.0);
  c.logits = torch::tensor({{{std::log(0.9f), std::log(0.1f)}}});
  c.behaviour = torch::tensor({{{std::log(0.3f), std::log(0.7f)}}});
  c.action.zero_();
  c.reward.fill_(1);
  c.value.zero_();
  c.terminated.fill_(true);
  const VtraceResult got = c.run({0.9, 1.0, 2.0, 1.0, 1.5, true});
  EXPECT_NEAR(got.ratio.item<double>(), 3, 1e-5);
  EXPECT_NEAR(got.vs.item<double>(), 2, 1e-5);           // rho_clip
  EXPECT_NEAR(got.advantage.item<double>(), 1.5, 1e-5);  // pg_rho_clip
}

TEST(Vtrace, LastRewardCounts) {
  Case c(5, 1, 4, 3, 0.0);
  const VtraceResult before = c.run({});
  c.reward[0][3] += 1;
  const VtraceResult after = c.run({});
  for (int64_t k = 0; k < 4; ++k) EXPECT_GT(after.vs[0][k].item<double>(), before.vs[0][k].item<double>());
  EXPECT_GT(after.advantage[0][3].item<double>(), before.advantage[0][3].item<double>());
}

TEST(Vtrace, TimeMajorStrides) {
  Case c(9, 2, 5);
  const VtraceResult expected = c.run({});
  auto transposed = [](const at::Tensor& x) { return x.t().contiguous(); };
  const at::Tensor ratio = transposed(expected.ratio), reward = transposed(c.reward), value = transposed(c.value);
  const at::Tensor terminated = transposed(c.terminated), truncated = transposed(c.truncated);
  at::Tensor vs = torch::empty({5, 2}), advantage = torch::empty({5, 2});
  const float* finals = c.final_value.const_data_ptr<float>();
  for (int64_t i = 0; i < 2; ++i) {
    const int64_t n = c.truncated[i].logical_and(c.terminated[i].logical_not()).sum().item<int64_t>();
    vtrace({}, VtraceUnroll{5, 2, ratio.const_data_ptr<float>() + i, reward.const_data_ptr<float>() + i,
                            terminated.const_data_ptr<bool>() + i, truncated.const_data_ptr<bool>() + i,
                            value.const_data_ptr<float>() + i, finals, n, vs.mutable_data_ptr<float>() + i,
                            advantage.mutable_data_ptr<float>() + i});
    finals += n;
  }
  EXPECT_TRUE(at::equal(vs.t(), expected.vs));
  EXPECT_TRUE(at::equal(advantage.t(), expected.advantage));
}

TEST(Vtrace, CountsFinalValues) {
  const Case c(2, 1, 6, 4, 0.4);
  ASSERT_GT(c.final_value.numel(), 0);
  std::vector<float> vs(6), advantage(6), many(100);
  VtraceUnroll u;
  u.length = 6;
  u.ratio = u.reward = c.reward.const_data_ptr<float>();
  u.terminated = c.terminated.const_data_ptr<bool>();
  u.truncated = c.truncated.const_data_ptr<bool>();
  u.value = c.value.const_data_ptr<float>();
  u.final_value = many.data();
  u.vs = vs.data();
  u.advantage = advantage.data();
  u.final_values = c.final_value.numel();
  EXPECT_NO_THROW(vtrace({}, u));
  u.final_values = c.final_value.numel() + 1;
  EXPECT_THROW(vtrace({}, u), Error);
  u.final_values = 0;
  EXPECT_THROW(vtrace({}, u), Error);
}

}  // namespace
}  // namespace parl
