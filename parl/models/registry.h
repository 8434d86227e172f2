// Models by name. A value: copy it, add your own networks to it, hand it to whoever makes models.
//
//   ModelRegistry models = builtin_models();
//   models.add("my_net", "two layers for my robot", [](const ModelSpec& spec) { return std::make_shared<MyNet>(spec);
//   }); auto model = models.make("atari42", spec);
//
// Where the spec has a mask of legal actions, a model comes inside a MaskedModel (agent/masked_model.h).
// A critic of continuous control (agent/q_model.h) has a name, too; one that bears its policy network's name is taken
// with it. Built in: mlp, mlp64, mlp256, dict.
// Built in: mlp (any array), mlp64 and mlp256 (continuous control), dict (observations of parts), minatar (small
// boards), atari42 (PARL's 42x42 network), nature, impala_shallow, impala_deep (images); mlp_norm, minatar_norm,
// nature_norm: with LayerNorm; mlp, minatar and the images' with a memory as NAME_lstm (lstm.h): mlp_lstm,
// atari42_lstm, ...; and any of the registry's, own ones included, behind statistics of its observations as
// normalized:NAME (normalized.h). Initial weights come from torch's global generator: torch::manual_seed first. Unknown
// names: error with the near ones.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parl/agent/model.h"
#include "parl/agent/q_model.h"

namespace parl {

class ModelRegistry {
 public:
  void add(const std::string& name, const std::string& help, ModelFactory factory);
  std::shared_ptr<Model> make(const std::string& name, const ModelSpec& spec) const { return factory(name)(spec); }
  ModelFactory factory(const std::string& name) const;
  const std::string& help(const std::string& name) const;
  std::vector<std::string> names() const;

  void add_critic(const std::string& name, const std::string& help, QModelFactory factory);
  // "auto": the critic that bears `model`'s name, else mlp256, or dict for observations of parts.
  const QModelFactory& critic_factory(const std::string& name, const std::string& model = "",
                                      bool of_parts = false) const;
  std::vector<std::string> critic_names() const;

 private:
  struct Entry {
    std::string help;
    ModelFactory factory;
  };
  struct CriticEntry {
    std::string help;
    QModelFactory factory;
  };
  std::map<std::string, Entry> entries_;
  std::map<std::string, CriticEntry> critics_;
};

ModelRegistry builtin_models();

// "dict" for observations of parts, "mlp" for vectors, "atari42" for 42x42 images, "nature" for 84x84, "impala_shallow"
// for other images, "minatar" for those that are too small for it (pixel games), "mlp" below 3x3.
std::string default_model_for(const ModelSpec& spec);

}  // namespace parl
