// The weights of any torch module by name: parameters, then buffers, in registration order; float32, on the CPU.
// Model and QModel are read and written by these. Thread rule: one thread at a time.
#pragma once

#include "parl/agent/weights.h"

namespace torch::nn {
class Module;
}

namespace parl {

Weights module_weights(const torch::nn::Module& module);
// Checks count, names and shapes and names what differs; nothing is changed when it throws parl::Error.
void set_module_weights(torch::nn::Module& module, const Weights& weights);
// target = decay * target + (1 - decay) * source.
void sync_modules(const torch::nn::Module& source, torch::nn::Module& target, double decay = 0.0);

}  // namespace parl
