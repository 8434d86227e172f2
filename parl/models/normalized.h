// Networks that see observations with mean 0 and deviation 1: x = clip((obs - mean) / sqrt(variance + 1e-8), -10, 10).
//
// Mean and variance are those of every observation that was learnt from so far, each once, in double precision, merged
// batch by batch with the counts as weights (Chan, Golub & LeVeque 1979, "Updating formulae and a pairwise algorithm
// for computing sample variances"). observe() adds a batch; nothing else changes them, so evaluation and deployed
// policies see them frozen. They are buffers of the network ("observations.count", ".mean", ".variance", float64): they
// travel with its weights, have the weights' version, so that one rollout is acted and learnt under the same ones, and
// are part of every checkpoint and saved policy. Before the first batch x = clip(obs).
//
//   auto model = builtin_models().make("normalized:mlp", spec);    // any network by its name, those with a memory too
// Float observations only: pixels are scaled by their networks. Thread rule: as Model's.
#pragma once

#include <memory>

#include "parl/agent/model.h"

namespace parl {

// In front of a network's name: that network behind such statistics.
inline constexpr const char* kNormalized = "normalized:";

// Takes the network over; its weights get names "network....".
std::shared_ptr<Model> normalized(std::shared_ptr<Model> network, const ModelSpec& spec);

}  // namespace parl
