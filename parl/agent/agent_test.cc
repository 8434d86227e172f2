#include "parl/agent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "parl/agent/safetensors.h"
#include "parl/core/check.h"

namespace parl {
namespace {

struct Net : Model {
  torch::nn::Linear policy{4, 3};
  Net() { register_module("policy", policy); }
  PolicyValue forward(const at::Tensor& obs) override { return {policy(obs), obs.sum(-1)}; }
};

// Learns by counting.
struct Counter : Algorithm {
  std::shared_ptr<Net> net = std::make_shared<Net>();
  int64_t calls = 0;
  ActOutput sample(const at::Tensor& obs, const at::Tensor&) override { return predict(obs); }
  ActOutput predict(const at::Tensor& obs) override {
    PolicyValue out = net->forward(obs);
    return {out.logits.argmax(-1), out.logits, out.value};
  }
  LearnStats learn(const Batch&, int64_t) override {
    ++calls;
    return {{"loss", 1.0}};
  }
  Model& model() override { return *net; }
  Weights get_state() const override { return {{{"calls", Array::from<int64_t>({calls})}}}; }
  void set_state(const Weights& state) override {
    if (state.entries.at(0).name != "calls") raise("no calls");
    calls = state.entries[0].array.data<int64_t>()[0];
  }
};

class AgentFiles : public testing::Test {
 protected:
  std::string folder_ = testing::TempDir() + "/parl_agent_" + std::to_string(getpid());
  std::string path_ = folder_ + "/agent.safetensors";
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
};

TEST_F(AgentFiles, SaveAndRestore) {
  auto a = std::make_shared<Counter>(), b = std::make_shared<Counter>();
  Agent one(a), two(b);
  one.learn({}, 0), one.learn({}, 0);
  one.save(path_);
  two.restore(path_);
  EXPECT_EQ(b->calls, 2);
  const at::Tensor obs = torch::randn({5, 4});
  EXPECT_TRUE(at::equal(one.predict(obs).logits, two.predict(obs).logits));
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) EXPECT_EQ(entry.path(), path_);
}

TEST_F(AgentFiles, WeightsAloneLeaveTheState) {
  auto a = std::make_shared<Counter>();
  Agent agent(a);
  agent.learn({}, 0);
  save_safetensors(path_, std::make_shared<Counter>()->get_weights());
  agent.restore(path_);
  EXPECT_EQ(a->calls, 1);
}

TEST_F(AgentFiles, FailedRestoreChangesNothing) {
  Agent agent(std::make_shared<Counter>());
  const Weights before = agent.get_weights();
  Weights bad = std::make_shared<Counter>()->get_weights();
  bad.entries.push_back({"state/wrong", Array::from<int64_t>({1})});
  save_safetensors(path_, bad);
  EXPECT_THROW(agent.restore(path_), Error);
  EXPECT_TRUE(agent.get_weights().entries[0].array == before.entries[0].array);
  EXPECT_THROW(agent.restore(folder_ + "/none"), Error);
  EXPECT_THROW(agent.save(folder_ + "/no/such/folder"), Error);
}

TEST_F(AgentFiles, SafetensorsRoundTrip) {
  Weights weights;
  weights.entries.push_back({"a.weight", Array::from<float>({1.5f, -2, 3})});
  weights.entries.push_back({"b", Array::of<uint8_t>({2, 0, 3})});
  weights.entries.push_back({"odd", Array::from<uint8_t>({7, 8, 9})});
  weights.entries.push_back({"n", Array::from<int64_t>({int64_t{1} << 40})});
  save_safetensors(path_, weights, {{"who", "\"me\""}});
  SafetensorsMetadata metadata;
  const Weights back = load_safetensors(path_, &metadata);
  ASSERT_EQ(back.entries.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(back.entries[i].name, weights.entries[i].name);
    EXPECT_TRUE(back.entries[i].array == weights.entries[i].array);
  }
  EXPECT_EQ(metadata.at("who"), "\"me\"");
  weights.entries.push_back({"b", Array::from<float>({1})});
  EXPECT_THROW(save_safetensors(path_, weights), Error);
  EXPECT_EQ(load_safetensors(path_).entries.size(), 4u);
}

TEST_F(AgentFiles, SafetensorsRefusesBrokenFiles) {
  Weights weights;
  weights.entries.push_back({"a", Array::of<float>({64})});
  save_safetensors(path_, weights);
  std::ifstream file(path_, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  for (size_t size : {size_t{0}, size_t{4}, size_t{20}, good.size() - 1}) {
    write(good.substr(0, size));
    EXPECT_THROW(load_safetensors(path_), Error) << size;
  }
  auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    write(text);
  };
  for (auto [from, to] :
       {std::pair{"[64]", "[65]"}, {"F32", "F99"}, {"[64]", "[-4"}, {"[0,256]", "[8,264]"}, {"shape", "shap_"}}) {
    replaced(from, to);
    EXPECT_THROW(load_safetensors(path_), Error) << to;
  }
  write(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + good);
  EXPECT_THROW(load_safetensors(path_), Error);
}

}  // namespace
}  // namespace parl
