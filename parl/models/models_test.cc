#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/models/cnn.h"
#include "parl/models/mlp.h"
#include "parl/models/registry.h"
#include "parl/models/resnet.h"

namespace parl {
namespace {

ModelSpec image_spec(int64_t size, int64_t channels = 4, int64_t actions = 6, DType dtype = DType::kU8) {
  return {{size, size, channels}, dtype, actions, 0};
}

at::Tensor random_obs(const ModelSpec& spec, int64_t n) {
  std::vector<int64_t> shape = spec.obs_shape;
  shape.insert(shape.begin(), n);
  return spec.obs_dtype == DType::kU8 ? torch::randint(0, 256, shape, at::kByte) : torch::randn(shape);
}

// Weights away from their near-zero start, so that every path matters.
std::shared_ptr<Cnn> make_cnn(const ModelSpec& spec, std::vector<ConvLayer> layers) {
  torch::manual_seed(7);
  auto model = std::make_shared<Cnn>(spec, std::move(layers));
  torch::NoGradGuard no_grad;
  for (const auto& item : model->named_parameters()) {
    item.value().add_(torch::randn_like(item.value()) * (item.key() == "policy.weight" ? 0.2 : 0.02));
  }
  return model;
}

struct NetCase {
  const char* name;
  ModelSpec spec;
  std::vector<ConvLayer> layers;
};

std::vector<NetCase> net_cases() {
  return {{"atari42", image_spec(42), atari42_layers()},
          {"nature", image_spec(84), nature_layers()},
          {"shallow", image_spec(84, 4, 18), impala_shallow_layers()},
          {"many_actions", image_spec(42, 4, 40), atari42_layers()},
          {"one_frame", image_spec(42, 1, 3), atari42_layers()},
          {"floats", image_spec(42, 3, 4, DType::kF32), atari42_layers()},
          {"minatar", image_spec(10), minatar_layers()},
          {"catch", {{10, 5, 1}, DType::kU8, 3, 0}, minatar_layers()},
          {"freeway", image_spec(10, 7, 3), minatar_layers()},
          {"seaquest", image_spec(10, 10), minatar_layers()},
          {"odd_strides", image_spec(40, 2, 5), {{32, 5, 3, 2}, {64, 5, 2, 1}, {32, 3, 1, 1}, {64, 0}}}};
}

void expect_close(const at::Tensor& a, const at::Tensor& b, const std::string& what, double tolerance = 2e-5) {
  const double scale = b.abs().max().item<double>() + 1e-6, error = (a - b).abs().max().item<double>();
  EXPECT_LT(error / scale, tolerance) << what << ": " << error << " of " << scale;
}

TEST(Models, FirstFiltersOverPixelsIgnoreUniformStillAreas) {
  for (const char* name : {"atari42", "nature", "impala_shallow", "impala_deep"}) {
    SCOPED_TRACE(name);
    torch::manual_seed(3);
    const at::Tensor first = builtin_models().make(name, image_spec(84))->parameters()[0];
    EXPECT_LT(first.mean({1, 2, 3}).abs().max().item<double>(), 1e-6);
    EXPECT_GT(first.pow(2).sum({1, 2, 3}).min().item<double>(), 1);
    const at::Tensor floats = builtin_models().make(name, image_spec(84, 4, 6, DType::kF32))->parameters()[0];
    EXPECT_GT(floats.mean({1, 2, 3}).abs().max().item<double>(), 1e-3);
  }
}

TEST(Cnn, HandWrittenPassesEqualTorch) {
  for (const NetCase& c : net_cases()) {
    SCOPED_TRACE(c.name);
    auto model = make_cnn(c.spec, c.layers);
    const at::Tensor obs = random_obs(c.spec, 7);
    if (!model->is_fused_for(obs)) GTEST_SKIP() << "no AVX-512 in this build";

    PolicyValue expected = model->forward_with_torch(obs);
    const at::Tensor d_logits = torch::randn_like(expected.logits), d_value = torch::randn({7});
    d_logits[3].zero_(), d_value[3] = 0;  // a row without gradient
    torch::autograd::backward({expected.logits, expected.value}, {d_logits, d_value});
    std::vector<at::Tensor> gradients;
    for (at::Tensor& p : model->parameters()) gradients.push_back(p.grad().clone()), p.grad().zero_();

    auto recording = model->record(obs);
    expect_close(recording->output().logits, expected.logits.detach(), "logits");
    expect_close(recording->output().value, expected.value.detach(), "value");
    recording->backward(d_logits, d_value);
    size_t i = 0;
    for (const auto& item : model->named_parameters()) expect_close(item.value().grad(), gradients[i++], item.key());

    recording = model->record(obs);  // gradients add up; the memory of the first recording is used again
    auto other = model->record(obs.slice(0, 0, 2));
    recording->backward(d_logits, d_value);
    i = 0;
    for (const auto& item : model->named_parameters())
      expect_close(item.value().grad(), 2 * gradients[i++], item.key());
  }
}

TEST(Cnn, BackwardOverSeveralChunks) {
  for (const auto& c :
       {NetCase{"atari42", image_spec(42), atari42_layers()}, NetCase{"nature", image_spec(84), nature_layers()}}) {
    auto model = make_cnn(c.spec, c.layers);
    const int64_t n = c.spec.obs_shape[0] == 42 ? 613 : 300;
    const at::Tensor obs = random_obs(c.spec, n);
    if (!model->is_fused_for(obs)) GTEST_SKIP() << "no AVX-512 in this build";
    const at::Tensor d_logits = torch::randn({n, 6}), d_value = torch::randn({n});
    // Torch sums a bias' million numbers in float32 (off by up to 1 % in one thread): here in pieces, those in double.
    std::vector<at::Tensor> gradients;
    for (at::Tensor& p : model->parameters()) gradients.push_back(torch::zeros(p.sizes(), at::kDouble));
    for (int64_t at = 0; at < n; at += 10) {
      const int64_t some = std::min<int64_t>(10, n - at);
      const PolicyValue expected = model->forward_with_torch(obs.narrow(0, at, some));
      torch::autograd::backward({expected.logits, expected.value},
                                {d_logits.narrow(0, at, some), d_value.narrow(0, at, some)});
      for (size_t i = 0; i < gradients.size(); ++i) {
        at::Tensor& piece = model->parameters()[i].mutable_grad();
        gradients[i] += piece.detach();
        piece.zero_();
      }
    }
    model->record(obs)->backward(d_logits, d_value);
    size_t i = 0;
    for (const auto& item : model->named_parameters())
      expect_close(item.value().grad(), gradients[i++], item.key(),
                   5e-5);  // hundreds of observations: both sides round
  }
}

TEST(Cnn, SameBitsInEveryBatch) {  // ratios are exactly 1 at lag 0
  for (const NetCase& c : net_cases()) {
    auto model = make_cnn(c.spec, c.layers);
    const at::Tensor obs = random_obs(c.spec, 300);
    if (!model->is_fused_for(obs)) GTEST_SKIP() << "no AVX-512 in this build";
    torch::NoGradGuard no_grad;
    const PolicyValue all = model->forward(obs);
    for (auto [begin, n] : {std::pair<int64_t, int64_t>{0, 1}, {5, 16}, {250, 50}, {3, 250}}) {
      const at::Tensor rows = obs.narrow(0, begin, n);
      const PolicyValue part = model->forward(rows);
      EXPECT_TRUE(at::equal(part.logits, all.logits.narrow(0, begin, n))) << c.name;
      EXPECT_TRUE(at::equal(part.value, all.value.narrow(0, begin, n))) << c.name;
      EXPECT_TRUE(at::equal(model->record(rows)->output().logits, part.logits)) << c.name;
    }
  }
}

TEST(Cnn, NoticesNewWeights) {
  const ModelSpec spec = image_spec(42);
  auto a = make_cnn(spec, atari42_layers());
  torch::manual_seed(8);
  Cnn b(spec, atari42_layers());
  const at::Tensor obs = random_obs(spec, 3);
  torch::NoGradGuard no_grad;
  EXPECT_FALSE(at::allclose(a->forward(obs).logits, b.forward(obs).logits));
  b.set_weights(a->get_weights());
  EXPECT_TRUE(at::equal(a->forward(obs).logits, b.forward(obs).logits));
  a->named_parameters()["conv2.weight"].mul_(0.9);
  expect_close(a->forward(obs).value, a->forward_with_torch(obs).value, "value after an in-place change");
  auto recording = a->record(obs);
  a->named_parameters()["value.bias"].add_(1);
  if (!a->is_fused_for(obs)) return;
  EXPECT_THROW(recording->backward(torch::zeros({3, 6}), torch::zeros({3})), Error);
}

TEST(Cnn, NanIsNotHidden) {
  const ModelSpec spec = image_spec(42);
  auto model = make_cnn(spec, atari42_layers());
  torch::NoGradGuard no_grad;
  for (const char* name : {"conv1.bias", "conv3.weight", "value.weight"}) {
    at::Tensor p = model->named_parameters()[name];
    const at::Tensor before = p.clone();
    p.fill_(std::nanf(""));
    EXPECT_TRUE(model->forward(random_obs(spec, 1)).value.isnan().all().item<bool>()) << name;
    p.copy_(before);
  }
}

TEST(Cnn, ForwardIsDifferentiable) {
  const ModelSpec spec = image_spec(42);
  auto model = make_cnn(spec, atari42_layers());
  model->forward(random_obs(spec, 2)).value.sum().backward();
  EXPECT_GT(model->named_parameters()["conv1.weight"].grad().abs().sum().item<double>(), 0);
}

TEST(Models, ShapesAndSizes) {
  torch::manual_seed(1);
  const ModelRegistry models = builtin_models();
  struct {
    const char* name;
    ModelSpec spec;
    int64_t parameters;
  } cases[] = {{"atari42", image_spec(42), 1'002'551},        {"nature", image_spec(84), 1'687'719},
               {"impala_shallow", image_spec(84), 677'943},   {"impala_deep", image_spec(84), 1'091'031},
               {"minatar", image_spec(10), 132'695},          {"mlp", {{4}, DType::kF32, 2, 0}, 4'675},
               {"minatar_norm", image_spec(10), 132'983},     {"nature_norm", image_spec(84), 1'689'063},
               {"mlp_norm", {{4}, DType::kF32, 2, 0}, 18'051}};
  for (const auto& c : cases) {
    auto model = models.make(c.name, c.spec);
    torch::NoGradGuard no_grad;
    const PolicyValue out = model->forward(random_obs(c.spec, 3));
    EXPECT_EQ(out.logits.sizes(), (std::vector<int64_t>{3, c.spec.num_actions})) << c.name;
    EXPECT_EQ(out.value.sizes(), (std::vector<int64_t>{3})) << c.name;
    EXPECT_LT(out.logits.abs().max().item<double>(), 0.5) << c.name;
    EXPECT_EQ(model->parameter_count(), c.parameters) << c.name;
  }
}

TEST(Models, OrthogonalStart) {
  torch::manual_seed(2);
  auto model = builtin_models().make("nature", image_spec(84));
  const auto parameters = model->named_parameters();
  for (const char* name : {"conv2.weight", "conv3.weight", "conv4.weight"}) {
    const at::Tensor rows = parameters[name].detach().flatten(1);
    EXPECT_TRUE(at::allclose(at::mm(rows, rows.t()), 2 * torch::eye(rows.size(0)), 1e-3, 1e-3)) << name;
  }
  EXPECT_NEAR(parameters["policy.weight"].detach().norm(2, 1).max().item<double>(), 0.01, 1e-5);
  EXPECT_NEAR(parameters["value.weight"].detach().norm().item<double>(), 1, 1e-4);
}

// scripts/load_run.py builds the network again in PyTorch from the weights' file alone.
TEST(Models, PythonGetsEqualOutputs) {
  if (std::string(PARL_PYTHON).empty()) GTEST_SKIP() << "no Python with torch (cmake -DPARL_PYTHON=...)";
  if (std::system((std::string(PARL_PYTHON) + " -c 'import torch' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no torch there";
  const std::string folder = testing::TempDir() + "/parl_load_run_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  const ModelRegistry models = builtin_models();
  std::string arguments, wrong;
  for (const auto& [name, spec] : std::map<std::string, ModelSpec>{{"atari42", image_spec(42)},
                                                                   {"nature", image_spec(84)},
                                                                   {"impala_shallow", image_spec(84)},
                                                                   {"minatar", image_spec(10)},
                                                                   {"minatar_norm", image_spec(10)},
                                                                   {"nature_norm", image_spec(84)},
                                                                   {"mlp_norm", {{4}, DType::kF32, 2, 0}},
                                                                   {"mlp", {{4}, DType::kF32, 2, 0}}}) {
    torch::manual_seed(4);
    torch::NoGradGuard no_grad;
    auto model = models.make(name, spec);
    for (at::Tensor& p : model->parameters()) p.add_(torch::randn_like(p) * 0.02);
    const at::Tensor obs = random_obs(spec, 3);
    const PolicyValue out = model->forward(obs);
    Weights check;
    check.entries = {{"obs", to_array(obs)}, {"logits", to_array(out.logits)}, {"value", to_array(out.value)}};
    const std::string file = folder + "/" + name;
    save_safetensors(file + ".weights", model->get_weights());
    save_safetensors(file + ".check", check);
    check.entries[1].array.data<float>()[0] += 0.01f;
    save_safetensors(file + ".wrong", check);
    arguments += " " + file + ".weights " + file + ".check";
    wrong = " " + file + ".weights " + file + ".wrong";
  }
  auto python = [&](const std::string& args) {
    return std::system((std::string(PARL_PYTHON) + " " + PARL_SOURCE_DIR + "/scripts/load_run.py" + args + " > " +
                        folder + "/log 2>&1")
                           .c_str());
  };
  EXPECT_EQ(python(arguments), 0) << "see " << folder << "/log";
  EXPECT_NE(python(wrong), 0) << "the comparison cannot fail";
}

TEST(Registry, NamesDefaultsAndErrors) {
  ModelRegistry models = builtin_models();
  EXPECT_THAT(models.names(), testing::ElementsAre("atari42", "atari42_lstm", "dict", "dict_lstm", "impala_deep",
                                                   "impala_deep_lstm", "impala_shallow", "impala_shallow_lstm",
                                                   "minatar", "minatar_lstm", "minatar_norm", "mlp", "mlp256", "mlp64",
                                                   "mlp_lstm", "mlp_norm", "nature", "nature_lstm", "nature_norm"));
  EXPECT_EQ(default_model_for({{4}, DType::kF32, 2, 0}), "mlp");
  EXPECT_EQ(default_model_for(image_spec(42)), "atari42");
  EXPECT_EQ(default_model_for(image_spec(84)), "nature");
  EXPECT_EQ(default_model_for(image_spec(64)), "impala_shallow");
  EXPECT_EQ(default_model_for(image_spec(10)), "minatar");  // too small for it
  EXPECT_EQ(default_model_for({{10, 5, 1}, DType::kU8, 3, 0}), "minatar");
  EXPECT_EQ(default_model_for(image_spec(2)), "mlp");
  auto message = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_THAT(message([&] { models.make("natur", image_spec(84)); }), testing::HasSubstr("nature"));
  EXPECT_THAT(message([&] { models.make("nature", {{4}, DType::kF32, 2, 0}); }), testing::HasSubstr("images"));
  EXPECT_THAT(message([&] { models.make("nature", image_spec(20)); }), testing::HasSubstr("too small"));
  EXPECT_THAT(message([&] { models.make("mlp_norm", {{4}, DType::kF32, 0, 2}); }), testing::HasSubstr("Discrete"));
  ModelSpec continuous = image_spec(84);
  continuous.num_actions = 0, continuous.action_size = 2;
  EXPECT_THAT(message([&] { models.make("nature", continuous); }), testing::HasSubstr("Discrete"));
  EXPECT_THAT(message([&] { models.add("mlp", "", models.factory("mlp")); }), testing::HasSubstr("exists"));
  models.add("tiny", "one layer",
             [](const ModelSpec& spec) { return std::make_shared<Mlp>(spec, std::vector<int64_t>{8}); });
  EXPECT_EQ(models.make("tiny", {{4}, DType::kF32, 2, 0})->parameter_count(), 4 * 8 + 8 + 8 * 2 + 2 + 8 + 1);
}

}  // namespace
}  // namespace parl
