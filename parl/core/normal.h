// standard_normal: numpy's Generator.standard_normal(), bit for bit: the next draw of this generator, mean 0,
// deviation 1. Takes one word of the generator in 99 of 100 cases. It equals numpy's where the C library rounds exp and
// log1p alike. Thread rule: that of the generator. Source: Marsaglia & Tsang 2000, "The ziggurat method for generating
// random variables", in numpy's arrangement of 256 layers and 52 bits.
#pragma once

#include "parl/core/rng.h"

namespace parl {

double standard_normal(NumpyRng& rng);

}  // namespace parl
