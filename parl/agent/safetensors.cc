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

void save_safetensors(const std::string& path, const std::vector<SafetensorsEntry>& entries,
                      const SafetensorsMetadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t offset = 0;
  for (const SafetensorsEntry& entry : entries) {
    PARL_CHECK(entry.name != "__metadata__" && !header.contains(entry.name), "{}: the name '{}' stands twice", path,
               entry.name);
    const size_t begin = offset;
    for (const auto& piece : entry.pieces) offset += piece.size();
    PARL_CHECK_EQ(offset - begin, static_cast<size_t>(shape_size(entry.shape, entry.dtype)) * dtype_size(entry.dtype),
                  "the pieces do not make up the array's shape");
    header[entry.name] = {{"dtype", name_of(entry.dtype)}, {"shape", entry.shape}, {"data_offsets", {begin, offset}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  AtomicFile file(path);
  file.write(&length, sizeof(length));
  file.write(text.data(), text.size());
  for (const SafetensorsEntry& entry : entries) {
    for (const auto& piece : entry.pieces) file.write(piece.data(), piece.size());
  }
  file.commit();
}

void save_safetensors(const std::string& path, const Weights& weights, const SafetensorsMetadata& metadata) {
  std::vector<SafetensorsEntry> entries;
  for (const NamedArray& entry : weights.entries) {
    entries.push_back({entry.name,
                       entry.array.dtype(),
                       entry.array.shape(),
                       {std::span<const std::byte>(entry.array.data(), entry.array.bytes())}});
  }
  save_safetensors(path, entries, metadata);
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path), file_(path, std::ios::binary) {
  PARL_CHECK(file_.good(), "cannot read {}: {}", path, std::strerror(errno));
  const uint64_t size = std::filesystem::file_size(path);
  uint64_t length = 0;
  file_.read(reinterpret_cast<char*>(&length), sizeof(length));
  PARL_CHECK(file_.good() && length <= size - 8, "{} is not a safetensors file, or is cut short", path);
  std::string text(length, '\0');
  file_.read(text.data(), static_cast<std::streamsize>(length));
  const Json header = Json::parse(text, nullptr, false);
  PARL_CHECK(header.is_object(), "{}: the header is not a JSON object", path);
  try {
    for (const auto& [name, item] : header.items()) {
      if (name == "__metadata__") {
        metadata_ = item.get<SafetensorsMetadata>();
        continue;
      }
      const uint64_t begin = item.at("data_offsets").at(0), end = item.at("data_offsets").at(1);
      Place place{dtype_of_name(item.at("dtype"), path), item.at("shape").get<Shape>(), 8 + length + begin, 0};
      place.bytes = static_cast<uint64_t>(shape_size(place.shape, place.dtype)) * dtype_size(place.dtype);
      PARL_CHECK(begin <= end && end - begin == place.bytes && end <= size - 8 - length,
                 "{}: '{}' lies outside the file, or its size does not fit its shape", path, name);
      names_.push_back(name);
      places_.emplace(name, std::move(place));
    }
  } catch (const nlohmann::json::exception& error) {
    raise("{}: bad header: {}", path, error.what());
  }
}

const SafetensorsFile::Place& SafetensorsFile::place(const std::string& name) const {
  const auto found = places_.find(name);
  PARL_CHECK(found != places_.end(), "{} holds no '{}'{}", path_, name, did_you_mean(name, names_));
  return found->second;
}

void SafetensorsFile::read(const std::string& name, std::span<std::byte> into) {
  const Place& at = place(name);
  PARL_CHECK_EQ(into.size(), at.bytes, "an array of another size was expected");
  file_.seekg(static_cast<std::streamoff>(at.begin));
  file_.read(reinterpret_cast<char*>(into.data()), static_cast<std::streamsize>(into.size()));
  PARL_CHECK(file_.good(), "{}: cut short in '{}'", path_, name);
}

Weights load_safetensors(const std::string& path, SafetensorsMetadata* metadata) {
  SafetensorsFile file(path);
  if (metadata) *metadata = file.metadata();
  Weights weights;
  for (const std::string& name : file.names()) {
    Array array = Array::empty(file.dtype(name), file.shape(name));
    file.read(name, {array.data(), array.bytes()});
    weights.entries.push_back({name, std::move(array)});
  }
  return weights;
}

}  // namespace parl
