#include "parl/agent/obs_parts.h"

#include <torch/torch.h>

#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"

namespace parl {

const ObsPart& find_part(const ModelSpec& spec, const std::string& name) {
  std::vector<std::string> names;
  for (const ObsPart& part : spec.parts) {
    if (part.name == name) return part;
    names.push_back(part.name);
  }
  raise("the observation has no part '{}'{}", name, did_you_mean(name, names));
}

at::Tensor part_view(const at::Tensor& obs, const ObsPart& part) {
  const auto size = static_cast<int64_t>(dtype_size(part.dtype));
  const int64_t bytes = part.elements() * size;
  PARL_CHECK(obs.dim() == 2 && obs.scalar_type() == at::kByte && part.offset + bytes <= obs.size(1),
             "an observation of parts is [N, bytes] uint8; the part '{}' ends at byte {}", part.name,
             part.offset + bytes);
  at::Tensor block = obs.narrow(1, part.offset, bytes);
  const bool is_aligned = (block.size(0) < 2 || block.stride(0) % size == 0) && block.stride(1) == 1 &&
                          block.storage_offset() % size == 0 &&
                          reinterpret_cast<uintptr_t>(block.const_data_ptr()) % static_cast<uintptr_t>(size) == 0;
  if (!is_aligned) block = block.clone(at::MemoryFormat::Contiguous);
  std::vector<int64_t> shape = part.shape;
  shape.insert(shape.begin(), obs.size(0));
  return block.view(to_scalar_type(part.dtype)).view(shape);
}

at::Tensor one_hot(const at::Tensor& obs, const ObsPart& part) {
  PARL_CHECK(!part.choices.empty(), "the part '{}' is of quantities, not of numbers to choose", part.name);
  const at::Tensor numbers = part_view(obs, part).reshape({obs.size(0), -1}).to(at::kLong);
  int64_t all = 0, first = 0;
  for (int64_t n : part.choices) all += n;
  const at::Tensor out = torch::zeros({obs.size(0), all}, obs.options().dtype(at::kFloat));
  for (size_t k = 0; k < part.choices.size(); ++k) {
    out.narrow(1, first, part.choices[k]).scatter_(1, numbers.narrow(1, static_cast<int64_t>(k), 1), 1.0);
    first += part.choices[k];
  }
  return out;
}

at::Tensor part_features(const at::Tensor& obs, const ObsPart& part) {
  if (!part.choices.empty()) return one_hot(obs, part);
  const at::Tensor values = part_view(obs, part).reshape({obs.size(0), -1}).to(at::kFloat);
  return part.scale == 1 ? values : values * part.scale;
}

at::Tensor legal_actions(const ModelSpec& spec, const at::Tensor& obs) {
  const ObsPart* mask = spec.action_mask();
  PARL_CHECK(mask != nullptr, "the observation has no part 'action_mask'");
  const at::Tensor given = part_view(obs, *mask).reshape({obs.size(0), -1}).ne(0);
  const std::vector<int64_t> one = {spec.num_actions};
  std::vector<at::Tensor> numbers;
  int64_t first = 0;
  for (int64_t n : spec.action_choices.empty() ? one : spec.action_choices) {
    const at::Tensor of_number = given.narrow(1, first, n);
    numbers.push_back(of_number.logical_or(of_number.any(1, true).logical_not()));
    first += n;
  }
  return numbers.size() == 1 ? numbers[0] : at::cat(numbers, 1);
}

}  // namespace parl
