// libFuzzer's entry to one target, which CMake names in PARL_FUZZ_TARGET.
#include "parl/core/log.h"
#include "parl/remote/fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  parl::log().set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  parl::fuzz::PARL_FUZZ_TARGET({data, size});
  return 0;
}
