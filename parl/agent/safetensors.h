// Named arrays in a file, in the safetensors format: 8 bytes of header length, a JSON header, the raw little-endian
// data. Python reads it with the `safetensors` package, or in ten lines (scripts/load_run.py).
//
// Writing is atomic (core/files.h): a full disk leaves the old file.
// Throws parl::Error naming the file and what is wrong with it. Thread rule: any thread; one writer per path.
#pragma once

#include <map>
#include <string>

#include "parl/agent/weights.h"

namespace parl {

using SafetensorsMetadata = std::map<std::string, std::string>;

void save_safetensors(const std::string& path, const Weights& weights, const SafetensorsMetadata& metadata = {});
Weights load_safetensors(const std::string& path, SafetensorsMetadata* metadata = nullptr);

}  // namespace parl
