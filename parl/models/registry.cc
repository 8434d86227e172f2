#include "parl/models/registry.h"

#include <algorithm>

#include "parl/core/check.h"
#include "parl/models/cnn.h"
#include "parl/models/lstm.h"
#include "parl/models/mlp.h"
#include "parl/models/normalized.h"
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
  PARL_CHECK(entries_.emplace(name, Entry{help, std::move(factory)}).second, "a model named '{}' exists already", name);
}

ModelFactory ModelRegistry::factory(const std::string& name) const {
  if (name.starts_with(kNormalized)) {
    return [network = factory(name.substr(std::string(kNormalized).size()))](const ModelSpec& spec) {
      return normalized(network(spec), spec);
    };
  }
  auto found = entries_.find(name);
  if (found == entries_.end()) raise("unknown model '{}'{}", name, did_you_mean(name, names()));
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

ModelRegistry builtin_models() {
  ModelRegistry models;
  const auto cnn = [](std::vector<ConvLayer> (*layers)()) {
    return [layers](const ModelSpec& spec) { return std::make_shared<Cnn>(spec, layers()); };
  };
  add_both(models, "mlp", "two hidden layers of 64, tanh; for vectors", 64, 64,
           [](const ModelSpec& spec) { return std::make_shared<Mlp>(spec); });
  add_both(models, "atari42", "PARL's network for 42x42 images: conv 16, 32, 256", 256, 256, cnn(atari42_layers));
  add_both(models, "nature", "Mnih et al. 2015: conv 32, 64, 64, linear 512", 512, 256, cnn(nature_layers));
  add_both(models, "impala_shallow", "Espeholt et al. 2018, small: conv 16, 32, linear 256", 256, 256,
           cnn(impala_shallow_layers));
  add_both(models, "minatar", "Young & Tian 2019, for boards of 3x3 cells and more: conv 16, linear 128", 128, 128,
           cnn(minatar_layers));
  add_both(models, "impala_deep", "Espeholt et al. 2018, deep: 15 convolutions in residual blocks, linear 256", 256,
           256, [](const ModelSpec& spec) { return std::make_shared<ImpalaDeep>(spec); });
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
