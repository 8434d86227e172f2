#include "parl/models/registry.h"

#include <algorithm>

#include "parl/agent/masked_model.h"
#include "parl/core/check.h"
#include "parl/models/cnn.h"
#include "parl/models/dict_net.h"
#include "parl/models/lstm.h"
#include "parl/models/mlp.h"
#include "parl/models/norm.h"
#include "parl/models/normalized.h"
#include "parl/models/relu_mlp.h"
#include "parl/models/resnet.h"

namespace parl {
namespace {

// A network as it is, and with a memory of `units` between its layers, which end in `features` floats, and its heads.
void add_both(ModelRegistry& models, const std::string& name, const std::string& help, int64_t features, int64_t units,
              ModelFactory factory) {
  models.add(name + "_lstm", fmt::format("the layers of {}, then an LSTM of {}", name, units),
             [=](const ModelSpec& spec) {
               return std::make_shared<LstmModel>(spec, factory(trunk_spec(spec)), features, units);
             });
  models.add(name, help, factory);
}

}  // namespace

void ModelRegistry::add(const std::string& name, const std::string& help, ModelFactory factory) {
  PARL_CHECK(factory != nullptr, "model '{}' needs a factory", name);
  // Every model learns here what a policy's logits stand for, so that no network need know of masks or of several
  // numbers.
  ModelFactory whole = [factory = std::move(factory)](const ModelSpec& spec) {
    std::shared_ptr<Model> model = factory(spec);
    PARL_CHECK(model != nullptr, "a model's factory made none");
    if (spec.action_mask()) model = masked(std::move(model), spec);
    model->set_action_choices(spec.action_choices);
    return model;
  };
  PARL_CHECK(entries_.emplace(name, Entry{help, std::move(whole)}).second, "a model named '{}' exists already", name);
}

ModelFactory ModelRegistry::factory(const std::string& name) const {
  if (name.starts_with(kNormalized)) {
    return [network = factory(name.substr(std::string(kNormalized).size()))](const ModelSpec& spec) {
      return normalized(network(spec), spec);
    };
  }
  auto found = entries_.find(name);
  if (found == entries_.end()) {
    raise("unknown model '{}'{}; `parl list models` shows all", name, did_you_mean(name, names()));
  }
  return found->second.factory;
}

const std::string& ModelRegistry::help(const std::string& name) const {
  factory(name);  // throws for an unknown one
  return entries_.at(name.substr(name.starts_with(kNormalized) ? std::string(kNormalized).size() : 0)).help;
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

const QModelFactory& ModelRegistry::critic_factory(const std::string& name, const std::string& model,
                                                   bool of_parts) const {
  const std::string fallback = of_parts ? "dict" : "mlp256";
  const std::string wanted = name != "auto" ? name : critics_.count(model) ? model : fallback;
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
  const auto cnn = [](std::vector<ConvLayer> (*layers)()) {
    return [layers](const ModelSpec& spec) { return std::make_shared<Cnn>(spec, layers()); };
  };
  add_both(models, "mlp", "two hidden layers of 64, tanh; for vectors", 64, 64,
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
  add_both(models, "atari42", "PARL's network for 42x42 images: conv 16, 32, 256", 256, 256, cnn(atari42_layers));
  add_both(models, "nature", "Mnih et al. 2015: conv 32, 64, 64, linear 512", 512, 256, cnn(nature_layers));
  add_both(models, "impala_shallow", "Espeholt et al. 2018, small: conv 16, 32, linear 256", 256, 256,
           cnn(impala_shallow_layers));
  add_both(models, "minatar", "Young & Tian 2019, for boards of 3x3 cells and more: conv 16, linear 128", 128, 128,
           cnn(minatar_layers));
  models.add("mlp_norm", "two hidden layers of 128, LayerNorm, ReLU; for vectors, with pqn",
             [](const ModelSpec& spec) { return std::make_shared<MlpNorm>(spec); });
  models.add("minatar_norm", "minatar with LayerNorm, for pqn",
             [](const ModelSpec& spec) { return std::make_shared<CnnNorm>(spec, minatar_layers()); });
  models.add("nature_norm", "nature with LayerNorm, for pqn",
             [](const ModelSpec& spec) { return std::make_shared<CnnNorm>(spec, nature_layers()); });
  add_both(models, "impala_deep", "Espeholt et al. 2018, deep: 15 convolutions in residual blocks, linear 256", 256,
           256, [](const ModelSpec& spec) { return std::make_shared<ImpalaDeep>(spec); });
  add_both(models, "dict",
           "for observations of parts: convolutions for images, a layer for each other part, two for all",
           DictNet::kFeatures, 128, [](const ModelSpec& spec) { return std::make_shared<DictNet>(spec); });
  models.add_critic("dict", "for observations of parts: the same layers for each, two of 256, ReLU, for all",
                    [](const ModelSpec& spec) { return std::make_shared<DictCritic>(spec); });
  return models;
}

std::string default_model_for(const ModelSpec& spec) {
  if (!spec.parts.empty()) return "dict";
  if (spec.obs_shape.size() != 3) return "mlp";
  if (spec.obs_shape[0] == 42 && spec.obs_shape[1] == 42) return "atari42";
  if (spec.obs_shape[0] == 84 && spec.obs_shape[1] == 84) return "nature";
  constexpr int64_t kSmallest = 20;  // what impala_shallow's kernels of 8 / 4 and 4 / 2 leave something of
  const int64_t side = std::min(spec.obs_shape[0], spec.obs_shape[1]);
  if (side >= kSmallest) return "impala_shallow";
  return side >= 3 ? "minatar" : "mlp";
}

}  // namespace parl
