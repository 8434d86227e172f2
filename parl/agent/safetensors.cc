#include "parl/agent/safetensors.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "parl/core/check.h"
#include "parl/core/files.h"

namespace parl {
namespace {

using Json = nlohmann::ordered_json;

struct DTypeName {
  DType dtype;
  const char* name;
};
constexpr DTypeName kNames[] = {{DType::kBool, "BOOL"}, {DType::kU8, "U8"},   {DType::kI8, "I8"},
                                {DType::kU16, "U16"},   {DType::kI16, "I16"}, {DType::kU32, "U32"},
                                {DType::kI32, "I32"},   {DType::kU64, "U64"}, {DType::kI64, "I64"},
                                {DType::kF32, "F32"},   {DType::kF64, "F64"}};

const char* name_of(DType dtype) {
  for (const auto& entry : kNames) {
    if (entry.dtype == dtype) return entry.name;
  }
  raise("safetensors: element type {} has no name", static_cast<int>(dtype));
}

DType dtype_of_name(const std::string& name, const std::string& path) {
  for (const auto& entry : kNames) {
    if (name == entry.name) return entry.dtype;
  }
  raise("{}: element type '{}' is not supported", path, name);
}

}  // namespace

void save_safetensors(const std::string& path, const Weights& weights, const SafetensorsMetadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t offset = 0;
  for (const NamedArray& entry : weights.entries) {
    PARL_CHECK(entry.name != "__metadata__" && !header.contains(entry.name), "{}: the name '{}' stands twice", path,
               entry.name);
    const size_t end = offset + entry.array.bytes();
    header[entry.name] = {
        {"dtype", name_of(entry.array.dtype())}, {"shape", entry.array.shape()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string contents(reinterpret_cast<const char*>(&length), sizeof(length));
  contents.reserve(sizeof(length) + text.size() + offset);
  contents += text;
  for (const NamedArray& entry : weights.entries) {
    contents.append(reinterpret_cast<const char*>(entry.array.data()), entry.array.bytes());
  }
  write_file_atomically(path, contents);
}

Weights load_safetensors(const std::string& path, SafetensorsMetadata* metadata) {
  std::ifstream file(path, std::ios::binary);
  PARL_CHECK(file.good(), "cannot read {}: {}", path, std::strerror(errno));
  const uint64_t size = std::filesystem::file_size(path);
  uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof(length));
  PARL_CHECK(file.good() && length <= size - 8, "{} is not a safetensors file, or is cut short", path);
  std::string text(length, '\0');
  file.read(text.data(), static_cast<std::streamsize>(length));
  const Json header = Json::parse(text, nullptr, false);
  PARL_CHECK(header.is_object(), "{}: the header is not a JSON object", path);

  Weights weights;
  try {
    for (const auto& [name, item] : header.items()) {
      if (name == "__metadata__") {
        if (metadata) *metadata = item.get<SafetensorsMetadata>();
        continue;
      }
      const uint64_t begin = item.at("data_offsets").at(0), end = item.at("data_offsets").at(1);
      Shape shape = item.at("shape").get<Shape>();
      const DType dtype = dtype_of_name(item.at("dtype"), path);
      const uint64_t bytes = static_cast<uint64_t>(shape_size(shape, dtype)) * dtype_size(dtype);
      PARL_CHECK(begin <= end && end - begin == bytes && end <= size - 8 - length,
                 "{}: '{}' lies outside the file, or its size does not fit its shape", path, name);
      Array array = Array::empty(dtype, std::move(shape));
      file.seekg(static_cast<std::streamoff>(8 + length + begin));
      file.read(reinterpret_cast<char*>(array.data()), static_cast<std::streamsize>(array.bytes()));
      PARL_CHECK(file.good(), "{}: cut short in '{}'", path, name);
      weights.entries.push_back({name, std::move(array)});
    }
  } catch (const nlohmann::json::exception& error) {
    raise("{}: bad header: {}", path, error.what());
  }
  return weights;
}

}  // namespace parl
