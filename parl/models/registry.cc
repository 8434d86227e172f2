#include "parl/models/registry.h"

#include <algorithm>

#include "parl/core/check.h"
#include "parl/models/cnn.h"
#include "parl/models/mlp.h"
#include "parl/models/relu_mlp.h"
#include "parl/models/resnet.h"

namespace parl {

void ModelRegistry::add(const std::string& name, const std::string& help, ModelFactory factory) {
  PARL_CHECK(factory != nullptr, "model '{}' needs a factory", name);
  PARL_CHECK(entries_.emplace(name, Entry{help, std::move(factory)}).second, "a model named '{}' exists already", name);
}

const ModelFactory& ModelRegistry::factory(const std::string& name) const {
  auto found = entries_.find(name);
  if (found == entries_.end()) raise("unknown model '{}'{}", name, did_you_mean(name, names()));
  return found->second.factory;
}

const std::string& ModelRegistry::help(const std::string& name) const {
  factory(name);
  return entries_.at(name).help;
}

std::vector<std::string> ModelRegistry::names() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : entries_) out.push_back(name);
  return out;
}

void ModelRegistry::add_critic(const std::string& name, const std::string& help, QModelFactory factory) {
  PARL_CHECK(factory != nullptr, "critic '{}' needs a factory", name);
  PARL_CHECK(name != "auto", "a critic cannot be called 'auto': that one chooses");
  PARL_CHECK(critics_.emplace(name, CriticEntry{help, std::move(factory)}).second, "a critic named '{}' exists already",
             name);
}

const QModelFactory& ModelRegistry::critic_factory(const std::string& name, const std::string& model) const {
  const std::string wanted = name != "auto" ? name : critics_.count(model) ? model : "mlp256";
  const auto found = critics_.find(wanted);
  if (found == critics_.end()) raise("unknown critic '{}'{}", wanted, did_you_mean(wanted, critic_names()));
  return found->second.factory;
}

std::vector<std::string> ModelRegistry::critic_names() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : critics_) out.push_back(name);
  return out;
}

ModelRegistry builtin_models() {
  ModelRegistry models;
  models.add("mlp", "two hidden layers of 64, tanh; for vectors",
             [](const ModelSpec& spec) { return std::make_shared<Mlp>(spec); });
  for (const int64_t size : {int64_t{64}, int64_t{256}}) {
    const std::vector<int64_t> hidden = {size, size};
    const std::string name = "mlp" + std::to_string(size), help = fmt::format("two hidden layers of {}, ReLU", size);
    models.add(name, help + "; for continuous control: deviations by the observation",
               [hidden](const ModelSpec& spec) { return std::make_shared<ReluMlp>(spec, hidden); });
    models.add_critic(name, help,
                      [hidden](const ModelSpec& spec) { return std::make_shared<MlpCritic>(spec, hidden); });
  }
  models.add_critic("mlp", "two hidden layers of 64, ReLU", [](const ModelSpec& spec) {
    return std::make_shared<MlpCritic>(spec, std::vector<int64_t>{64, 64});
  });
  models.add("atari42", "PARL's network for 42x42 images: conv 16, 32, 256",
             [](const ModelSpec& spec) { return std::make_shared<Cnn>(spec, atari42_layers()); });
  models.add("nature", "Mnih et al. 2015: conv 32, 64, 64, linear 512",
             [](const ModelSpec& spec) { return std::make_shared<Cnn>(spec, nature_layers()); });
  models.add("impala_shallow", "Espeholt et al. 2018, small: conv 16, 32, linear 256",
             [](const ModelSpec& spec) { return std::make_shared<Cnn>(spec, impala_shallow_layers()); });
  models.add("minatar", "Young & Tian 2019, for boards of 3x3 cells and more: conv 16, linear 128",
             [](const ModelSpec& spec) { return std::make_shared<Cnn>(spec, minatar_layers()); });
  models.add("impala_deep", "Espeholt et al. 2018, deep: 15 convolutions in residual blocks, linear 256",
             [](const ModelSpec& spec) { return std::make_shared<ImpalaDeep>(spec); });
  return models;
}

std::string default_model_for(const ModelSpec& spec) {
  if (spec.obs_shape.size() != 3) return "mlp";
  if (spec.obs_shape[0] == 42 && spec.obs_shape[1] == 42) return "atari42";
  if (spec.obs_shape[0] == 84 && spec.obs_shape[1] == 84) return "nature";
  constexpr int64_t kSmallest = 20;  // what impala_shallow's kernels of 8 / 4 and 4 / 2 leave something of
  const int64_t side = std::min(spec.obs_shape[0], spec.obs_shape[1]);
  if (side >= kSmallest) return "impala_shallow";
  return side >= 3 ? "minatar" : "mlp";
}

}  // namespace parl
