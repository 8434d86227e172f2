#include "parl/env/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "parl/core/check.h"

namespace parl {
namespace {

double bound_at(const std::vector<double>& bounds, size_t i) { return bounds.size() == 1 ? bounds[0] : bounds[i]; }

template <typename T>
bool all_inside(const Box& box, const void* values, size_t count) {
  const T* v = static_cast<const T*>(values);
  for (size_t i = 0; i < count; ++i) {
    // Bounds as the element type sees them: a float cannot be asked to keep to a double's last bits.
    const double x = static_cast<double>(v[i]);
    double low = bound_at(box.low, i), high = bound_at(box.high, i);
    if constexpr (std::is_same_v<T, float>) {
      low = static_cast<float>(low);
      high = static_cast<float>(high);
    }
    if (!(x >= low && x <= high)) return false;
  }
  return true;
}

std::string bounds_text(const std::vector<double>& bounds) {
  return bounds.size() == 1 ? fmt::format("{}", bounds[0]) : fmt::format("[{}]", fmt::join(bounds, ","));
}

}  // namespace

int64_t Box::size() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

size_t Box::bytes() const { return static_cast<size_t>(size()) * dtype_size(dtype); }

bool Box::bounded() const {
  for (double b : low) {
    if (!std::isfinite(b)) return false;
  }
  for (double b : high) {
    if (!std::isfinite(b)) return false;
  }
  return true;
}

bool Box::contains(const void* values) const {
  const auto count = static_cast<size_t>(size());
  PARL_CHECK(low.size() == 1 || low.size() == count, "a Box needs one lower bound or one per element, not {}",
             low.size());
  PARL_CHECK(high.size() == 1 || high.size() == count, "a Box needs one upper bound or one per element, not {}",
             high.size());
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return all_inside<uint8_t>(*this, values, count);
    case DType::kI8:
      return all_inside<int8_t>(*this, values, count);
    case DType::kU16:
      return all_inside<uint16_t>(*this, values, count);
    case DType::kI16:
      return all_inside<int16_t>(*this, values, count);
    case DType::kU32:
      return all_inside<uint32_t>(*this, values, count);
    case DType::kI32:
      return all_inside<int32_t>(*this, values, count);
    case DType::kU64:
      return all_inside<uint64_t>(*this, values, count);
    case DType::kI64:
      return all_inside<int64_t>(*this, values, count);
    case DType::kF32:
      return all_inside<float>(*this, values, count);
    case DType::kF64:
      return all_inside<double>(*this, values, count);
  }
  raise("a Box has an element type that does not exist: {}", static_cast<int>(dtype));
}

bool Dict::operator==(const Dict& other) const { return items == other.items; }
bool Tuple::operator==(const Tuple& other) const { return items == other.items; }

namespace {

struct Text {
  std::string operator()(const Box& box) const {
    return fmt::format("Box({}, [{}], {}..{})", dtype_name(box.dtype), fmt::join(box.shape, ","), bounds_text(box.low),
                       bounds_text(box.high));
  }
  std::string operator()(const Discrete& s) const { return fmt::format("Discrete({})", s.n); }
  std::string operator()(const MultiDiscrete& s) const {
    return fmt::format("MultiDiscrete([{}])", fmt::join(s.n, ","));
  }
  std::string operator()(const MultiBinary& s) const { return fmt::format("MultiBinary({})", s.n); }
  std::string operator()(const Dict& s) const {
    std::vector<std::string> items;
    for (const auto& [name, space] : s.items) items.push_back(name + ": " + to_string(space));
    return fmt::format("Dict({})", fmt::join(items, ", "));
  }
  std::string operator()(const Tuple& s) const {
    std::vector<std::string> items;
    for (const Space& space : s.items) items.push_back(to_string(space));
    return fmt::format("Tuple({})", fmt::join(items, ", "));
  }
};

const std::variant<Box, Discrete, MultiDiscrete, MultiBinary, Dict, Tuple>& variant_of(const Space& space) {
  return space;
}

void collect(const Space& space, const std::string& name, std::vector<SpacePart>& parts) {
  const auto inner = [&](const std::string& key) { return name.empty() ? key : name + "/" + key; };
  if (const auto* dict = std::get_if<Dict>(&space)) {
    for (const auto& [key, item] : dict->items) {
      PARL_CHECK(!key.empty(), "a Dict has a part without a name: {}", to_string(space));
      collect(item, inner(key), parts);
    }
  } else if (const auto* tuple = std::get_if<Tuple>(&space)) {
    for (size_t i = 0; i < tuple->items.size(); ++i) collect(tuple->items[i], inner(std::to_string(i)), parts);
  } else {
    SpacePart part{name.empty() ? "obs" : name, space, DType::kI64, {}, 0};
    if (const auto* box = std::get_if<Box>(&space)) {
      part.dtype = box->dtype;
      part.shape = box->shape;
    } else if (const auto* multi = std::get_if<MultiDiscrete>(&space)) {
      part.shape = {static_cast<int64_t>(multi->n.size())};
    } else if (const auto* binary = std::get_if<MultiBinary>(&space)) {
      part.dtype = DType::kU8;
      part.shape = {binary->n};
    }
    parts.push_back(std::move(part));
  }
}

}  // namespace

std::string to_string(const Space& space) { return std::visit(Text{}, variant_of(space)); }

std::vector<int64_t> choices_of(const Space& space) {
  if (const auto* discrete = std::get_if<Discrete>(&space)) return {discrete->n};
  if (const auto* multi = std::get_if<MultiDiscrete>(&space)) return multi->n;
  if (const auto* binary = std::get_if<MultiBinary>(&space)) {
    return std::vector<int64_t>(static_cast<size_t>(std::max<int64_t>(binary->n, 0)), 2);
  }
  PARL_CHECK(std::holds_alternative<Box>(variant_of(space)), "{} is not a space of numbers to choose: take it apart",
             to_string(space));
  return {};
}

size_t SpacePart::bytes() const {
  size_t count = 1;
  for (int64_t d : shape) count *= static_cast<size_t>(d);
  return count * dtype_size(dtype);
}

bool SpacePart::contains(const void* values) const {
  if (const auto* box = std::get_if<Box>(&space)) return box->contains(values);
  const std::vector<int64_t> choices = choices_of(space);
  for (size_t i = 0; i < choices.size(); ++i) {
    const int64_t value =
        dtype == DType::kU8 ? static_cast<const uint8_t*>(values)[i] : static_cast<const int64_t*>(values)[i];
    if (value < 0 || value >= choices[i]) return false;
  }
  return true;
}

ObservationLayout lay_out(const Space& space) {
  if (const auto* box = std::get_if<Box>(&space)) return {*box, {}};
  ObservationLayout out;
  collect(space, "", out.parts);
  PARL_CHECK(!out.parts.empty(), "an observation needs something in it: {}", to_string(space));
  std::set<std::string> names;
  size_t end = 0;
  for (SpacePart& part : out.parts) {
    PARL_CHECK(names.insert(part.name).second, "two parts of the observation are called '{}'", part.name);
    const size_t size = dtype_size(part.dtype);
    part.offset = (end + size - 1) / size * size;
    end = part.offset + part.bytes();
  }
  out.block = Box{DType::kU8, {static_cast<int64_t>((end + 7) / 8 * 8)}, {0}, {255}};
  return out;
}

void write_padding(std::span<std::byte> obs, const std::vector<SpacePart>& parts) {
  size_t end = 0;
  for (const SpacePart& part : parts) {
    std::memset(obs.data() + end, 0, part.offset - end);
    end = part.offset + part.bytes();
  }
  std::memset(obs.data() + end, 0, obs.size() - end);
}

}  // namespace parl
