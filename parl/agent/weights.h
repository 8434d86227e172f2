// Weights: named arrays that travel (remote calls, files). Free of torch.
#pragma once

#include <string>
#include <vector>

#include "parl/core/fields.h"
#include "parl/wire/array.h"

namespace parl {

struct NamedArray {
  std::string name;
  Array array;
};
PARL_FIELDS(NamedArray, name, array);

struct Weights {
  std::vector<NamedArray> entries;
};
PARL_FIELDS(Weights, entries);

}  // namespace parl
