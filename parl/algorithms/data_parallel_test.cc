// Several learners with a part of the batch each, against one learner with all of it.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <condition_variable>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>

#include "parl/agent/nonfinite.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/actor_critic.h"
#include "parl/core/check.h"
#include "parl/models/mlp.h"

namespace parl {
namespace {

const ModelSpec kSpec{{5}, DType::kF32, 3, 0};
constexpr int kLearners = 2;
constexpr int64_t kUnrolls = 4, kLength = 6;  // of one learner

std::shared_ptr<Model> make_mlp() { return std::make_shared<Mlp>(kSpec, std::vector<int64_t>{8}); }

// The sums of learners that are threads of this process.
class Meeting {
 public:
  void sum(double* values, size_t count) {
    std::unique_lock lock(mutex_);
    if (arrived_ == 0) total_.assign(count, 0.0);
    PARL_CHECK_EQ(total_.size(), count);
    for (size_t i = 0; i < count; ++i) total_[i] += values[i];
    const int64_t round = round_;
    if (++arrived_ == kLearners) {
      arrived_ = 0;
      result_ = total_;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round; });
    std::copy(result_.begin(), result_.end(), values);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<double> total_, result_;
  int arrived_ = 0;
  int64_t round_ = 0;
};

class Member final : public GradientReducer {
 public:
  Member(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return kLearners; }
  void sum(at::Tensor& flat) override {
    at::Tensor wide = flat.to(at::kDouble);
    meeting_.sum(wide.mutable_data_ptr<double>(), static_cast<size_t>(wide.numel()));
    flat.copy_(wide);
  }
  void sum(std::span<double> values) override { meeting_.sum(values.data(), values.size()); }

 private:
  Meeting& meeting_;
  int rank_;
};

Batch make_batch(uint64_t seed) {
  torch::manual_seed(seed);
  const int64_t b = kUnrolls * kLearners, t = kLength;
  Batch batch;
  batch.obs = torch::randn({b, t + 1, 5});
  batch.behaviour_logits = torch::randn({b, t, 3});
  batch.action = torch::randint(0, 3, {b, t}, at::kLong);
  batch.reward = torch::randn({b, t});
  batch.terminated = torch::rand({b, t}) < 0.1;
  batch.truncated = torch::rand({b, t}) < 0.2;
  batch.final_index = batch.truncated.logical_and(batch.terminated.logical_not()).flatten().nonzero().flatten();
  batch.final_obs = torch::randn({batch.final_index.numel(), 5});
  batch.version = torch::zeros({b}, at::kLong);
  return batch;
}

void together(const std::function<void(int)>& f) {
  std::vector<std::thread> threads;
  for (int r = 0; r < kLearners; ++r) {
    threads.emplace_back([&f, r] {
      at::set_num_threads(1);
      f(r);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Learners {
  Meeting meeting;
  std::vector<std::unique_ptr<ActorCritic>> each;
  std::unique_ptr<ActorCritic> one;  // with the whole batch

  explicit Learners(const ActorCriticConfig& config) {
    at::set_num_threads(1);
    torch::manual_seed(3);
    ActorCriticConfig whole = config;
    whole.shards = kLearners;
    one = std::make_unique<ActorCritic>(make_mlp(), whole, make_mlp);
    for (int r = 0; r < kLearners; ++r) {
      each.push_back(std::make_unique<ActorCritic>(make_mlp(), config, make_mlp));
      each.back()->set_weights(one->get_weights());
      each.back()->set_reducer(std::make_shared<Member>(meeting, r));
    }
  }
  void learn(uint64_t seed, std::vector<LearnStats>& stats) {
    const Batch batch = make_batch(seed);
    stats.assign(kLearners + 1, {});
    stats[kLearners] = one->learn(batch, 100 * static_cast<int64_t>(seed));
    together([&](int r) {
      stats[static_cast<size_t>(r)] =
          each[static_cast<size_t>(r)]->learn(batch.slice(r * kUnrolls, kUnrolls), 100 * static_cast<int64_t>(seed));
    });
  }
};

at::Tensor flat(ActorCritic& learner) {
  std::vector<at::Tensor> parts;
  for (const auto& item : learner.model().named_parameters()) parts.push_back(item.value().detach().flatten());
  return torch::cat(parts);
}

ActorCriticConfig config_of(Reduction reduction, MinibatchOf of) {
  ActorCriticConfig config;
  config.loss_reduction = reduction;
  config.minibatch_of = of;
  config.epochs = 3;
  config.minibatches = 2;
  config.clip = 0.2;
  config.lr = 3e-3;
  config.max_grad_norm = reduction == Reduction::kMean ? 0.1 : 2.0;  // so that it binds
  config.normalize_advantage = true;
  config.shuffle_seed = 5;
  return config;
}

void expect_equal(const ActorCriticConfig& config) {
  Learners learners(config);
  const at::Tensor before = flat(*learners.one).clone();
  std::vector<LearnStats> stats;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    learners.learn(seed, stats);
    const at::Tensor one = flat(*learners.one), first = flat(*learners.each[0]);
    EXPECT_TRUE(torch::equal(first, flat(*learners.each[1])));  // to the bit
    EXPECT_TRUE(torch::allclose(one, first, 1e-4, 2e-6)) << (one - first).abs().max().item<float>();
    for (size_t i = 0; i < stats[0].size(); ++i) {
      const auto& [name, value] = stats[kLearners][i];
      EXPECT_EQ(stats[0][i].first, name);
      EXPECT_NEAR(stats[0][i].second, value, 1e-4 + 1e-4 * std::abs(value)) << name;
      EXPECT_EQ(stats[0][i].second, stats[1][i].second) << name;
    }
  }
  EXPECT_GT((flat(*learners.one) - before).abs().max().item<float>(), 1e-2);
}

TEST(DataParallel, EqualsOneLearnerWithTheWholeBatch) {
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMean}) {
    for (const MinibatchOf of : {MinibatchOf::kUnrolls, MinibatchOf::kSteps}) {
      SCOPED_TRACE(fmt::format("mean {} steps {}", reduction == Reduction::kMean, of == MinibatchOf::kSteps));
      expect_equal(config_of(reduction, of));
    }
  }
  ActorCriticConfig threads = config_of(Reduction::kMean, MinibatchOf::kUnrolls);
  threads.learner_threads = 2;
  expect_equal(threads);
  ActorCriticConfig plain;  // one pass without normalisation
  plain.lr = 3e-3;
  expect_equal(plain);
}

TEST(DataParallel, TargetKlIsOneDecision) {
  ActorCriticConfig config = config_of(Reduction::kMean, MinibatchOf::kSteps);
  config.epochs = 8;
  // Far policies from the start: only the pass that is always made.
  config.target_kl = 1e-6;
  expect_equal(config);
  Learners learners(config);
  std::vector<LearnStats> stats;
  learners.learn(1, stats);
  for (const LearnStats& s : stats) {
    for (const auto& [name, value] : s) {
      if (name == "passes") {
        EXPECT_EQ(value, 1);
      }
    }
  }
}

TEST(DataParallel, StateIsThatOfOneLearnerAndGoesOnExactly) {
  const ActorCriticConfig config = config_of(Reduction::kMean, MinibatchOf::kSteps);
  Learners learners(config), again(config);
  std::vector<LearnStats> stats;
  learners.learn(1, stats);
  const Weights state = learners.each[0]->get_state();
  EXPECT_EQ(get_entry(state, "shuffle/position").size(), kLearners);
  for (auto* learner : {again.each[0].get(), again.each[1].get(), again.one.get()}) {
    learner->set_weights(learners.each[0]->get_weights());
    learner->set_state(state);
  }
  learners.learn(2, stats);
  again.learn(2, stats);
  EXPECT_TRUE(torch::equal(flat(*learners.each[1]), flat(*again.each[1])));
  EXPECT_TRUE(torch::allclose(flat(*learners.one), flat(*again.one), 1e-4, 2e-6));

  // Alone with a state of two, and two with a state of one.
  ActorCritic alone(make_mlp(), config);
  alone.set_state(state);
  learners.each[0]->set_state(alone.get_state());
}

TEST(DataParallel, NanAtOneStopsAllAndTouchesNoWeights) {
  for (const MinibatchOf of : {MinibatchOf::kUnrolls, MinibatchOf::kSteps}) {
    ActorCriticConfig config = config_of(Reduction::kMean, of);
    config.minibatches = 1;  // else one without the NaN may come first
    Learners learners(config);
    const at::Tensor before = flat(*learners.each[0]).clone();
    Batch batch = make_batch(1);
    batch.reward[kUnrolls][2] = std::numeric_limits<float>::quiet_NaN();  // learner 1's
    std::vector<std::string> errors(kLearners);
    together([&](int r) {
      try {
        learners.each[static_cast<size_t>(r)]->learn(batch.slice(r * kUnrolls, kUnrolls), 0);
      } catch (const NonFiniteError& error) {
        errors[static_cast<size_t>(r)] = "nonfinite " + error.tensor();
      } catch (const Error& error) {
        errors[static_cast<size_t>(r)] = error.what();
      }
    });
    EXPECT_EQ(errors[1], "nonfinite reward");
    EXPECT_NE(errors[0].find("learner 1 of 2"), std::string::npos) << errors[0];
    EXPECT_TRUE(torch::equal(before, flat(*learners.each[0])));
    EXPECT_TRUE(torch::equal(before, flat(*learners.each[1])));
  }
}

}  // namespace
}  // namespace parl
