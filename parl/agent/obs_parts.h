// Takes observations of parts (a Dict, a Tuple, numbers to choose by) apart: for networks over them.
//
//   for (const ObsPart& part : spec.parts) { at::Tensor x = part_view(obs, part); ... }
//   at::Tensor camera = part_view(obs, find_part(spec, "camera"));     // [N, H, W, C] uint8
//   at::Tensor gear = one_hot(obs, find_part(spec, "gear"));           // [N, 5] float32
//
// obs is [N, bytes] uint8 on any device. Thread rule: any thread. Errors: parl::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "parl/agent/spec.h"

namespace parl {

// Throws with the near names.
const ObsPart& find_part(const ModelSpec& spec, const std::string& name);

// [N, ...part.shape] in the part's own type: a view of obs where its rows lie at multiples of the element's size (as
// those of rollouts and batches do), else a copy.
at::Tensor part_view(const at::Tensor& obs, const ObsPart& part);

// Of a part with choices n_1..n_K: [N, sum n_k] float32, a 1 at each number's choice.
at::Tensor one_hot(const at::Tensor& obs, const ObsPart& part);

// [N, part's elements or choices] float32 for a network: one_hot(), or the quantities times part.scale.
at::Tensor part_features(const at::Tensor& obs, const ObsPart& part);

// The mask of legal actions, [N, num_actions] bool; a number of an action without any legal choice has all. Throws
// where spec has no mask.
at::Tensor legal_actions(const ModelSpec& spec, const at::Tensor& obs);

}  // namespace parl
