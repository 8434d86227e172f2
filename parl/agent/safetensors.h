// Named arrays in a file, in the safetensors format: 8 bytes of header length, a JSON header, the raw little-endian
// data. Python reads it with the `safetensors` package, or in ten lines (scripts/load_run.py).
//
// Writing is atomic (core/files.h): a full disk leaves the old file.
// Throws parl::Error naming the file and what is wrong with it. Thread rule: any thread; one writer per path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "parl/agent/weights.h"

namespace parl {

using SafetensorsMetadata = std::map<std::string, std::string>;

void save_safetensors(const std::string& path, const Weights& weights, const SafetensorsMetadata& metadata = {});
Weights load_safetensors(const std::string& path, SafetensorsMetadata* metadata = nullptr);

// One array of a file, which may lie in several pieces of memory; they are written one after the other.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::span<const std::byte>> pieces;
};
// Straight from the callers' memory: nothing is copied.
void save_safetensors(const std::string& path, const std::vector<SafetensorsEntry>& entries,
                      const SafetensorsMetadata& metadata = {});

// A file whose arrays are read one by one, each into the caller's memory.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  const SafetensorsMetadata& metadata() const { return metadata_; }
  const std::vector<std::string>& names() const { return names_; }  // in the file's order
  bool contains(const std::string& name) const { return places_.count(name) > 0; }
  DType dtype(const std::string& name) const { return place(name).dtype; }
  const Shape& shape(const std::string& name) const { return place(name).shape; }
  // `into` has the array's size.
  void read(const std::string& name, std::span<std::byte> into);

 private:
  struct Place {
    DType dtype = DType::kF32;
    Shape shape;
    uint64_t begin = 0, bytes = 0;  // in the file
  };
  const Place& place(const std::string& name) const;

  std::string path_;
  std::ifstream file_;
  SafetensorsMetadata metadata_;
  std::vector<std::string> names_;
  std::map<std::string, Place> places_;
};

}  // namespace parl
