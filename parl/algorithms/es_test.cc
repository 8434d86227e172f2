#include "parl/algorithms/es.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "parl/agent/nonfinite.h"
#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/core/error_of.h"
#include "parl/models/mlp.h"

namespace parl {
namespace {

std::shared_ptr<Model> make_mlp() {
  return std::make_shared<Mlp>(ModelSpec{{5}, DType::kF32, 3, 0}, std::vector<int64_t>{8});
}

at::Tensor flat(const Model& model) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& p : model.parameters()) parts.push_back(p.detach().reshape(-1).clone());
  return torch::cat(parts);
}

TEST(Es, CentredRanks) {
  using V = std::vector<double>;
  EXPECT_EQ(centred_ranks(V{3, -1, 7}), (V{0, -0.5, 0.5}));
  EXPECT_EQ(centred_ranks(V{2, 2, 9, 1, 2}), (V{0, 0, 0.5, -0.5, 0}));
  EXPECT_EQ(centred_ranks(V{4, 4, 4}), (V{0, 0, 0}));  // equal returns teach nothing
  EXPECT_EQ(centred_ranks(V{4}), (V{0}));
  EXPECT_TRUE(centred_ranks(V{}).empty());
}

class EsReference : public ::testing::Test {
 protected:
  void SetUp() override {
    SafetensorsMetadata metadata;
    tensors_ = load_safetensors(std::string(PARL_SOURCE_DIR) + "/parl/algorithms/testdata/es_reference.safetensors",
                                &metadata);
    settings_ = nlohmann::json::parse(metadata.at("settings"));
    config_.pairs = settings_["pairs"], config_.sigma = settings_["sigma"], config_.lr = settings_["lr"];
    config_.eps = settings_["eps"], config_.weight_decay = settings_["decay"];
    config_.noise_table = settings_["table"];
    Weights initial;
    for (const auto& item : model_->named_parameters()) {
      initial.entries.push_back({item.key(), get_entry(tensors_, "initial/" + item.key())});
    }
    model_->set_weights(initial);
  }
  at::Tensor get(const std::string& name) const { return to_tensor(get_entry(tensors_, name)); }
  std::vector<PairReturns> returns(const std::string& step) const {
    std::vector<PairReturns> out;
    const at::Tensor all = get(step + "/returns");
    for (int64_t i = 0; i < all.size(0); ++i) out.push_back({all[i][0].item<double>(), all[i][1].item<double>()});
    return out;
  }
  Weights tensors_;
  nlohmann::json settings_;
  EsConfig config_;
  std::shared_ptr<Model> model_ = make_mlp();
};

TEST_F(EsReference, TheTableOfNoiseAndItsPieces) {
  const uint64_t seed = settings_["seed"];
  const NoiseTable table(seed, config_.noise_table);
  const at::Tensor expected = get("table");
  const auto all = table.piece(0, 0, config_.noise_table);
  for (int64_t i = 0; i < config_.noise_table; ++i) {
    ASSERT_NEAR(all[static_cast<size_t>(i)], expected[i].item<float>(), 1e-5) << i;
  }
  for (int64_t generation = 0; generation < 3; ++generation) {
    const at::Tensor noise = get(std::to_string(generation) + "/noise");
    for (int64_t pair = 0; pair < noise.size(0); ++pair) {
      const auto piece = table.piece(generation, pair, noise.size(1));
      for (int64_t k = 0; k < noise.size(1); ++k) {
        ASSERT_NEAR(piece[static_cast<size_t>(k)], noise[pair][k].item<float>(), 1e-5);
      }
    }
  }
}

TEST_F(EsReference, UpdatesEqualNumpy) {
  Es es(model_, config_, settings_["seed"]);
  for (int64_t step = 0; step < 3; ++step) {
    const std::string name = std::to_string(step);
    es.perturb(step, 2, -1);
    EXPECT_TRUE(at::allclose(flat(*model_), get(name + "/perturbed"), 1e-5, 1e-5));
    EXPECT_TRUE(at::allclose(es.gradient_estimate(step, returns(name)), get(name + "/gradient"), 1e-5, 1e-6));
    es.update(returns(name), 0);
    for (const auto& item : model_->named_parameters()) {
      EXPECT_TRUE(at::allclose(item.value(), get(name + "/after/" + item.key()), 1e-4, 1e-5)) << name << item.key();
    }
  }
  EXPECT_EQ(es.generation(), 3);
}

TEST_F(EsReference, PairsAreMirroredAndTheMiddleComesBack) {
  Es es(model_, config_, 7);
  const at::Tensor theta = flat(*model_);
  es.perturb(4, 1, 1);
  const at::Tensor plus = flat(*model_);
  es.perturb(4, 1, -1);
  const at::Tensor minus = flat(*model_);
  EXPECT_TRUE(at::allclose((plus + minus) / 2, theta, 1e-5, 1e-6));
  EXPECT_NEAR((plus - theta).std().item<double>(), config_.sigma, 0.3 * config_.sigma);
  es.perturb(4, 2, 1);
  EXPECT_FALSE(at::allclose(flat(*model_), plus));
  es.settle();
  EXPECT_TRUE(flat(*model_).equal(theta));
  // Another object of the same seed makes the same network from the same weights.
  auto other = make_mlp();
  Es worker(other, config_, 7);
  worker.set_weights(es.get_weights());
  worker.perturb(4, 1, 1);
  EXPECT_TRUE(flat(*other).equal(plus));
}

TEST_F(EsReference, ContinuesToTheBit) {
  Es whole(model_, config_, 7);
  whole.update(returns("0"), 0);
  auto other = make_mlp();
  Es continued(other, config_, 7);
  continued.set_weights(whole.get_weights());
  continued.set_state(whole.get_state());
  EXPECT_EQ(whole.update(returns("1"), 50), continued.update(returns("1"), 50));
  EXPECT_TRUE(flat(*model_).equal(flat(*other)));
}

TEST_F(EsReference, RefusesWhatCannotBe) {
  Es es(model_, config_, 7);
  const at::Tensor theta = flat(*model_);
  const std::vector<PairReturns> bad = {{1, std::numeric_limits<double>::quiet_NaN()}};
  EXPECT_THROW(es.update(bad, 0), NonFiniteError);
  EXPECT_TRUE(flat(*model_).equal(theta));
  EXPECT_THROW(es.learn({}, 0), Error);
  config_.noise_table = 10;
  EXPECT_THAT(error_of([&] { Es(make_mlp(), config_, 7); }), ::testing::HasSubstr("--noise-table"));
  config_.sigma = 0;
  EXPECT_THROW(Es(make_mlp(), config_), Error);
}

}  // namespace
}  // namespace parl
