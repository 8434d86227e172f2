#include "parl/data/packed_rollout.h"

#include <algorithm>
#include <cstring>

#include "parl/core/check.h"

namespace parl {
namespace {

constexpr uint8_t kNewest = 0, kRepeated = 1, kWhole = 2;

// Where observation `row` of a rollout lies, and the one that it may follow; rows: obs [B * (T+1)], then final_obs [F].
class Rows {
 public:
  Rows(Rollout& r, const Shape& shape)
      : r_(r), rows_(shape[1]), per_obs_(static_cast<size_t>(shape[2] * shape[3] * shape[4])), obs_(shape[0] * rows_) {}
  int64_t count() const { return obs_ + r_.final_index.size(); }
  uint8_t* at(int64_t row) const {
    return row < obs_ ? r_.obs.data<uint8_t>() + static_cast<size_t>(row) * per_obs_
                      : r_.final_obs.data<uint8_t>() + static_cast<size_t>(row - obs_) * per_obs_;
  }
  // Null: the first of an unroll.
  const uint8_t* before(int64_t row) const {
    if (row < obs_) return row % rows_ == 0 ? nullptr : at(row - 1);
    const int64_t step = r_.final_index.data<int64_t>()[row - obs_];  // b * T + t
    return at(step + step / (rows_ - 1));
  }

 private:
  Rollout& r_;
  int64_t rows_;
  size_t per_obs_;
  int64_t obs_;
};

// `depth` frames of `pixels` bytes, interleaved. Stacks of four go by words, which the compiler makes vectors of.
struct Stack {
  size_t pixels, depth;

  // Is `obs` what `before` foretells but for the newest frame? / Are all its frames equal?
  bool follows(const uint8_t* obs, const uint8_t* before) const {
    if (depth == 4) return all_of_four([&](size_t i) { return (word(obs, i) << 8) ^ (word(before, i) & 0xffffff00u); });
    for (size_t i = 0; i < pixels; ++i, obs += depth, before += depth) {
      if (std::memcmp(obs, before + 1, depth - 1) != 0) return false;
    }
    return true;
  }
  bool repeats(const uint8_t* obs) const {
    if (depth == 4) return all_of_four([&](size_t i) { return word(obs, i) ^ ((word(obs, i) & 0xffu) * 0x01010101u); });
    for (size_t i = 0; i < pixels; ++i, obs += depth) {
      if (std::memcmp(obs, obs + 1, depth - 1) != 0) return false;
    }
    return true;
  }
  void take(const uint8_t* obs, size_t frame, uint8_t* out) const {
    for (size_t i = 0; i < pixels; ++i) out[i] = depth == 4 ? obs[i * 4 + frame] : obs[i * depth + frame];
  }
  void put(const uint8_t* in, size_t frame, uint8_t* obs) const {
    for (size_t i = 0; i < pixels; ++i) obs[i * depth + frame] = in[i];
  }
  void follow(const uint8_t* before, const uint8_t* newest, uint8_t* obs) const {
    if (depth == 4) {
      for (size_t i = 0; i < pixels; ++i) {
        const uint32_t pixel = (word(before, i) >> 8) | (uint32_t{newest[i]} << 24);
        std::memcpy(obs + 4 * i, &pixel, 4);
      }
      return;
    }
    for (size_t i = 0; i < pixels; ++i) std::memcpy(obs + i * depth, before + i * depth + 1, depth - 1);
    put(newest, depth - 1, obs);
  }
  size_t frames_of(uint8_t kind) const { return kind == kWhole ? depth : 1; }

 private:
  static uint32_t word(const uint8_t* stack, size_t pixel) {  // the oldest frame in the low byte
    uint32_t out;
    std::memcpy(&out, stack + 4 * pixel, 4);
    return out;
  }
  // Is difference(i) 0 for every pixel? Looks at the answer now and then, not at each.
  template <typename F>
  bool all_of_four(F&& difference) const {
    constexpr size_t kPart = 256;
    for (size_t begin = 0; begin < pixels; begin += kPart) {
      uint32_t any = 0;
      for (size_t i = begin; i < std::min(begin + kPart, pixels); ++i) any |= difference(i);
      if (any != 0) return false;
    }
    return true;
  }
};

}  // namespace

PackedRollout pack_rollout(Rollout rollout) {
  PackedRollout packed;
  const Shape shape = rollout.obs.shape();
  const bool stacks = rollout.obs.dtype() == DType::kU8 && shape.size() == 5 && shape.back() > 1;
  if (!stacks) {
    packed.rollout = std::move(rollout);
    return packed;
  }
  const Stack stack{static_cast<size_t>(shape[2] * shape[3]), static_cast<size_t>(shape[4])};
  const Rows rows(rollout, shape);
  Array kinds = Array::empty(DType::kU8, {rows.count()});
  size_t frames = 0;
  for (int64_t row = 0; row < rows.count(); ++row) {
    const uint8_t *obs = rows.at(row), *before = rows.before(row);
    const uint8_t kind = before && stack.follows(obs, before) ? kNewest : stack.repeats(obs) ? kRepeated : kWhole;
    kinds.data<uint8_t>()[row] = kind;
    frames += stack.frames_of(kind);
  }
  if (frames == static_cast<size_t>(rows.count()) * stack.depth) {  // nothing gained
    packed.rollout = std::move(rollout);
    return packed;
  }
  packed.frames = Array::empty(DType::kU8, {static_cast<int64_t>(frames), static_cast<int64_t>(stack.pixels)});
  uint8_t* out = packed.frames.data<uint8_t>();
  for (int64_t row = 0; row < rows.count(); ++row) {
    const size_t count = stack.frames_of(kinds.data<uint8_t>()[row]);
    for (size_t frame = stack.depth - count; frame < stack.depth; ++frame, out += stack.pixels)
      stack.take(rows.at(row), frame, out);
  }
  packed.obs_shape = shape;
  packed.kinds = std::move(kinds);
  rollout.obs = Array();
  rollout.final_obs = Array();
  packed.rollout = std::move(rollout);
  return packed;
}

Rollout unpack_rollout(PackedRollout packed) {
  Rollout rollout = std::move(packed.rollout);
  const Shape& shape = packed.obs_shape;
  if (shape.empty()) return rollout;
  const auto fits = [&] {
    return shape.size() == 5 && *std::min_element(shape.begin(), shape.end()) > 0 && rollout.reward.ndim() == 2 &&
           shape[0] == rollout.unrolls() && shape[1] == rollout.length() + 1 && packed.frames.ndim() == 2 &&
           packed.frames.dim(1) == shape[2] * shape[3] && packed.frames.dtype() == DType::kU8 &&
           packed.kinds.dtype() == DType::kU8 &&
           packed.kinds.size() == shape[0] * shape[1] + rollout.final_index.size();
  };
  PARL_CHECK(fits(), "a packed rollout whose parts do not fit together: another version of this program made it");
  const int64_t steps = rollout.steps();
  for (int64_t i = 0; i < rollout.final_index.size(); ++i) {
    const int64_t step = rollout.final_index.data<int64_t>()[i];
    PARL_CHECK(step >= 0 && step < steps, "a packed rollout of {} steps names step {}", steps, step);
  }
  const Stack stack{static_cast<size_t>(shape[2] * shape[3]), static_cast<size_t>(shape[4])};
  rollout.obs = Array::empty(DType::kU8, shape);
  rollout.final_obs = Array::empty(DType::kU8, {rollout.final_index.size(), shape[2], shape[3], shape[4]});
  const Rows rows(rollout, shape);
  const uint8_t* in = packed.frames.data<uint8_t>();
  const uint8_t* const end = in + packed.frames.bytes();
  for (int64_t row = 0; row < rows.count(); ++row) {
    const uint8_t kind = packed.kinds.data<uint8_t>()[row];
    uint8_t* obs = rows.at(row);
    const uint8_t* before = rows.before(row);
    const size_t count = stack.frames_of(kind);
    PARL_CHECK(kind <= kWhole && (before || kind != kNewest) && count * stack.pixels <= static_cast<size_t>(end - in),
               "a packed rollout is damaged at observation {}", row);
    if (kind == kNewest) stack.follow(before, in, obs);
    for (size_t frame = 0; frame < stack.depth && kind != kNewest; ++frame)
      stack.put(kind == kWhole ? in + frame * stack.pixels : in, frame, obs);
    in += count * stack.pixels;
  }
  PARL_CHECK(in == end, "a packed rollout has more frames than its observations need");
  return rollout;
}

}  // namespace parl
