#include "parl/models/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>

#include "parl/agent/recurrent.h"
#include "parl/agent/safetensors.h"
#include "parl/core/check.h"
#include "parl/core/error_of.h"
#include "parl/models/mlp.h"

namespace parl {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::path(::testing::TempDir()) / ("parl_policy_" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

// Weights of a network made from `seed`, in a file.
std::shared_ptr<Model> save(const fs::path& file, const std::string& name, const ModelSpec& spec, uint64_t seed) {
  fs::create_directories(file.parent_path());
  torch::manual_seed(seed);
  auto model = builtin_models().make(name, spec);
  Weights weights = model->get_weights();
  weights.entries.push_back({"exploration/epsilon", Array::from<float>({0.1f})});
  save_safetensors(file, weights, policy_metadata(name, spec));
  return model;
}

TEST(Policy, ActsAsTheNetworkThatWasSaved) {
  Folder folder;
  for (const auto& [name, spec] : {std::pair<std::string, ModelSpec>{"mlp", {{4}, DType::kF32, 3, 0}},
                                   std::pair<std::string, ModelSpec>{"atari42", {{42, 42, 4}, DType::kU8, 6, 0}}}) {
    const auto model = save(folder.path / "w.safetensors", name, spec, 3);
    const auto policy = load_policy((folder.path / "w.safetensors").string());
    std::vector<int64_t> shape = spec.obs_shape;
    shape.insert(shape.begin(), 5);
    const at::Tensor obs =
        spec.obs_dtype == DType::kU8 ? torch::randint(0, 256, shape, at::kByte) : torch::randn(shape);
    torch::NoGradGuard no_grad;
    const at::Tensor expected = model->forward(obs).logits;
    EXPECT_TRUE(policy->forward(obs).logits.equal(expected)) << name;
    EXPECT_TRUE(policy->act(obs).equal(expected.argmax(1))) << name;
    const size_t bytes = obs[0].nbytes();
    EXPECT_EQ(policy->act(std::span(static_cast<const std::byte*>(obs[2].const_data_ptr()), bytes)),
              expected[2].argmax().item<int64_t>());
    EXPECT_THROW(policy->act(std::span(static_cast<const std::byte*>(obs[2].const_data_ptr()), bytes - 1)), Error);
  }
}

TEST(Policy, RemembersItsEpisodes) {
  Folder folder;
  const ModelSpec spec{{4}, DType::kF32, 3, 0};
  const auto model = save(folder.path / "w.safetensors", "mlp_lstm", spec, 3);
  const auto policy = load_policy((folder.path / "w.safetensors").string());
  torch::NoGradGuard no_grad;
  RecurrentModel& lstm = *model->recurrent();
  const at::Tensor first = torch::randn({2, 4}), second = torch::randn({2, 4}), third = torch::randn({2, 4});
  const auto logits = [&](const at::Tensor& obs, at::Tensor& memory) {
    StepOutput out = lstm.step(obs, memory);
    memory = out.state;
    return out.output.logits;
  };
  for (int episode = 0; episode < 2; ++episode) {
    at::Tensor memory = lstm.initial_state(2);
    EXPECT_TRUE(policy->forward(first).logits.equal(logits(first, memory)));
    EXPECT_TRUE(policy->act(second).equal(logits(second, memory).argmax(1)));
    memory[1].zero_();
    policy->reset(torch::tensor({false, true}));
    EXPECT_TRUE(policy->forward(third).logits.equal(logits(third, memory)));
    EXPECT_THAT(error_of([&] { policy->act(torch::randn({3, 4})); }), ::testing::HasSubstr("reset()"));
    policy->reset();
  }
}

TEST(Policy, TakesTheBestThenTheNewestCheckpoint) {
  Folder folder;
  const ModelSpec spec{{4}, DType::kF32, 3, 0};
  const fs::path all = folder.path / "checkpoints";
  const auto newest_of = [&](const std::shared_ptr<Model>& model) {
    const at::Tensor obs = torch::ones({1, 4});
    torch::NoGradGuard no_grad;
    return load_policy(folder.path.string())->forward(obs).logits.equal(model->forward(obs).logits);
  };
  save(all / "step_000000000100" / "weights.safetensors", "mlp", spec, 1);
  const auto second = save(all / "step_000000000200" / "weights.safetensors", "mlp", spec, 2);
  save(all / "step_000000000300.tmp" / "weights.safetensors", "mlp", spec, 3);
  EXPECT_TRUE(newest_of(second));
  const auto best = save(all / "best" / "weights.safetensors", "mlp", spec, 4);
  EXPECT_TRUE(newest_of(best));
}

std::string loading(const std::string& path) {
  return error_of([&] { load_policy(path); });
}

TEST(Policy, ErrorsSayWhatIsWrong) {
  Folder folder;
  EXPECT_THAT(loading((folder.path / "nowhere").string()), ::testing::HasSubstr("there is no run"));
  EXPECT_THAT(loading(folder.path.string()), ::testing::HasSubstr("holds no checkpoint"));
  const ModelSpec spec{{4}, DType::kF32, 3, 0};
  save_safetensors(folder.path / "old.safetensors", Mlp(spec).get_weights(), {{"steps", "1"}});
  EXPECT_THAT(loading((folder.path / "old.safetensors").string()), ::testing::HasSubstr("'obs_shape'"));
  save_safetensors(folder.path / "other.safetensors", Mlp(spec).get_weights(), policy_metadata("mpl", spec));
  EXPECT_THAT(loading((folder.path / "other.safetensors").string()), ::testing::HasSubstr("mlp"));
}

}  // namespace
}  // namespace parl
