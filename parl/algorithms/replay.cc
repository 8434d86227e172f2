#include "parl/algorithms/replay.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/core/crc32c.h"

namespace parl {
namespace {

constexpr const char* kPrefix = "replay/";
const std::string kChecksum = "crc32c/";  // in the file's metadata, before an array's name

}  // namespace

SumTree::SumTree(int64_t size) {
  if (size <= 0) return;
  leaves_ = 1;
  while (leaves_ < size) leaves_ *= 2;
  nodes_.assign(static_cast<size_t>(2 * leaves_), 0.0);
}

void SumTree::set(int64_t i, double value) {
  size_t node = static_cast<size_t>(leaves_ + i);
  nodes_[node] = value;
  for (node /= 2; node > 0; node /= 2) nodes_[node] = nodes_[2 * node] + nodes_[2 * node + 1];
}

int64_t SumTree::find(double sum) const {
  size_t node = 1;
  while (node < static_cast<size_t>(leaves_)) {
    const double left = nodes_[2 * node], right = nodes_[2 * node + 1];
    node *= 2;
    if ((sum >= left && right > 0) || left <= 0) {
      sum -= left;
      ++node;
    }
  }
  return static_cast<int64_t>(node) - leaves_;
}

int64_t SumTree::bytes_for(int64_t size) {
  int64_t leaves = size > 0 ? 1 : 0;
  while (leaves < size) leaves *= 2;
  return 2 * leaves * static_cast<int64_t>(sizeof(double));
}

ReplayBuffer::ReplayBuffer(ReplayOptions options) : options_(options), rng_(options.seed, 0x5eb1a) {
  PARL_CHECK(options_.capacity > 0, "a replay buffer needs a capacity of at least one step, not {}", options_.capacity);
  PARL_CHECK(options_.n_step >= 1, "n-step is {}, expected at least 1", options_.n_step);
}

int64_t ReplayBuffer::capacity_bytes() const {
  return obs_.defined() ? static_cast<int64_t>(obs_.nbytes() + action_.nbytes() + reward_.nbytes() +
                                               terminated_.nbytes() + truncated_.nbytes()) +
                              tree_.bytes()
                        : 0;
}

int64_t ReplayBuffer::bytes_beside_obs(int64_t steps, int64_t action_bytes) const {
  return steps * (action_bytes + static_cast<int64_t>(sizeof(float) + 2 * sizeof(bool))) +
         (options_.prioritized ? SumTree::bytes_for(steps) : 0);
}

ReplayMemory ReplayBuffer::memory_for(const ModelSpec& spec, int64_t length) const {
  const int64_t slots = std::max<int64_t>(options_.capacity / length, 1), steps = slots * length;
  int64_t obs = static_cast<int64_t>(dtype_size(spec.obs_dtype));
  for (const int64_t dim : spec.obs_shape) obs *= dim;
  const int64_t action = spec.action_size > 0 ? spec.action_size * static_cast<int64_t>(sizeof(float))
                                              : static_cast<int64_t>(sizeof(int64_t));
  const int64_t rest = bytes_beside_obs(steps, action);
  ReplayMemory out;
  out.least = out.most = rest + slots * (length + 1) * obs;
  if (spec.obs_dtype == DType::kU8 && spec.obs_shape.size() == 3 && spec.obs_shape[2] > 1) {
    const int64_t depth = spec.obs_shape[2];
    out.least = rest + slots * (length + depth) * (obs / depth);
  }
  return out;
}

void ReplayBuffer::check_limit(int64_t bytes, const char* why) const {
  constexpr int64_t kMega = 1'000'000;
  PARL_CHECK(memory_limit_ <= 0 || bytes <= memory_limit_,
             "the replay buffer needs {} MB of memory{}, of which {} MB are there: use a smaller --replay-capacity, or "
             "--ignore-memory to go on all the same",
             bytes / kMega, why, memory_limit_ / kMega);
}

// Rows of a stack in channels-last images: obs[t+1] without its newest frame is obs[t] without its oldest; after an end
// all frames are alike.
bool ReplayBuffer::is_frame_stack(const Batch& batch) const {
  if (batch.obs.scalar_type() != at::kByte || batch.obs.dim() != 5 || batch.obs.size(4) < 2) return false;
  const int64_t depth = batch.obs.size(4), t = batch.length();
  const at::Tensor before = batch.obs.narrow(1, 0, t), after = batch.obs.narrow(1, 1, t);
  const at::Tensor moved = after.narrow(4, 0, depth - 1).eq(before.narrow(4, 1, depth - 1)).flatten(2).all(2);
  const at::Tensor alike = after.eq(after.narrow(4, depth - 1, 1)).flatten(2).all(2);
  return at::where(batch.terminated.logical_or(batch.truncated), alike, moved).all().item<bool>();
}

void ReplayBuffer::allocate(const Batch& batch) {
  length_ = batch.length();
  slots_ = std::max(options_.capacity / length_, batch.unrolls());
  obs_shape_ = batch.obs.sizes().slice(2).vec();
  depth_ = is_frame_stack(batch) ? obs_shape_[2] : 1;
  std::vector<int64_t> shape = obs_shape_;
  if (stores_frames()) shape.pop_back();
  shape.insert(shape.begin(), {slots_, rows()});
  int64_t bytes = at::elementSize(batch.obs.scalar_type());
  for (const int64_t dim : shape) bytes *= dim;
  const int64_t steps = slots_ * length_, action = static_cast<int64_t>(batch.action.nbytes()) / batch.steps();
  check_limit(bytes + bytes_beside_obs(steps, action), "");
  obs_ = torch::empty(shape, batch.obs.scalar_type());  // pages come as they are written
  std::vector<int64_t> actions = batch.action.sizes().vec();
  actions[0] = slots_;
  action_ = torch::zeros(actions, batch.action.scalar_type());
  reward_ = torch::zeros({slots_, length_});
  terminated_ = torch::zeros({slots_, length_}, at::kBool);
  truncated_ = torch::zeros({slots_, length_}, at::kBool);
  finals_.assign(static_cast<size_t>(slots_), {});
  if (options_.prioritized) tree_ = SumTree(slots_ * length_);
}

void ReplayBuffer::store_whole() {
  std::vector<int64_t> shape = obs_shape_;
  shape.insert(shape.begin(), {slots_, length_ + 1});
  const int64_t other = capacity_bytes() - static_cast<int64_t>(obs_.nbytes());
  check_limit(static_cast<int64_t>(obs_.nbytes()) / rows() * (length_ + 1) * depth_ + other,
              " now that an observation was no stack of frames");
  const at::Tensor whole = torch::empty(shape, obs_.scalar_type());
  for (int64_t slot = 0; slot < filled_; ++slot) {
    for (int64_t t = 0; t <= length_; ++t) {
      read_obs(slot, t, static_cast<std::byte*>(whole[slot][t].mutable_data_ptr()));
    }
  }
  obs_ = whole;
  depth_ = 1;
}

void ReplayBuffer::add(const Batch& given) {
  const Batch batch = given.to(at::kCPU);
  if (!obs_.defined()) allocate(batch);
  PARL_CHECK(batch.length() == length_, "the replay buffer was begun with unrolls of {} steps, these have {}", length_,
             batch.length());
  PARL_CHECK(batch.obs.sizes().slice(2) == at::IntArrayRef(obs_shape_) && batch.obs.scalar_type() == obs_.scalar_type(),
             "the replay buffer was begun with observations of another shape or type");
  PARL_CHECK(
      batch.action.sizes().slice(1) == action_.sizes().slice(1) && batch.action.scalar_type() == action_.scalar_type(),
      "the replay buffer was begun with actions of another shape or type");
  if (stores_frames() && !is_frame_stack(batch)) store_whole();
  for (int64_t b = 0; b < batch.unrolls(); ++b) add_unroll(batch, b);
}

void ReplayBuffer::add_unroll(const Batch& batch, int64_t b) {
  const int64_t slot = next_;
  next_ = (next_ + 1) % slots_;
  filled_ = std::max(filled_, slot + 1);
  action_[slot].copy_(batch.action[b]);
  reward_[slot].copy_(batch.reward[b]);
  terminated_[slot].copy_(batch.terminated[b]);
  truncated_[slot].copy_(batch.truncated[b].logical_and(batch.terminated[b].logical_not()));
  write_obs(slot, batch.obs[b]);
  auto& finals = finals_[static_cast<size_t>(slot)];
  finals.clear();
  const int64_t count = batch.final_index.defined() ? batch.final_index.numel() : 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = batch.final_index.const_data_ptr<int64_t>()[i];
    if (at / length_ == b) finals.emplace_back(at % length_, batch.final_obs[i].clone(at::MemoryFormat::Contiguous));
  }
  if (!options_.prioritized) return;
  for (int64_t t = 0; t < length_; ++t) tree_.set(slot * length_ + t, max_priority_);
}

void ReplayBuffer::write_obs(int64_t slot, const at::Tensor& obs) {
  if (!stores_frames()) {
    obs_[slot].copy_(obs);
    return;
  }
  const at::Tensor to = obs_[slot];
  to.narrow(0, 0, depth_).copy_(obs[0].permute({2, 0, 1}));
  to.narrow(0, depth_, length_).copy_(obs.narrow(0, 1, length_).select(3, depth_ - 1));
}

int64_t ReplayBuffer::last_reset(int64_t slot, int64_t t) const {
  const bool* terminated = terminated_.const_data_ptr<bool>() + slot * length_;
  const bool* truncated = truncated_.const_data_ptr<bool>() + slot * length_;
  for (int64_t r = t; r > 0; --r) {
    if (terminated[r - 1] || truncated[r - 1]) return r;
  }
  return 0;
}

void ReplayBuffer::read_obs(int64_t slot, int64_t t, std::byte* into) const {
  if (!stores_frames()) {
    const size_t row = obs_.nbytes() / static_cast<size_t>(slots_ * rows());
    const auto* from = static_cast<const std::byte*>(obs_.const_data_ptr());
    std::memcpy(into, from + static_cast<size_t>(slot * rows() + t) * row, row);
    return;
  }
  const int64_t reset = last_reset(slot, t), pixels = obs_shape_[0] * obs_shape_[1];
  const uint8_t* frames = obs_.const_data_ptr<uint8_t>() + slot * rows() * pixels;
  auto* to = reinterpret_cast<uint8_t*>(into);
  for (int64_t c = 0; c < depth_; ++c) {
    // Row depth - 1 holds the newest frame of obs[0]; those before it its older ones.
    int64_t step = t - (depth_ - 1 - c);
    if (reset > 0) step = std::max(step, reset);
    const uint8_t* from = frames + (depth_ - 1 + step) * pixels;
    for (int64_t i = 0; i < pixels; ++i) to[i * depth_ + c] = from[i];
  }
}

const at::Tensor& ReplayBuffer::final_of(int64_t slot, int64_t t) const {
  for (const auto& [at, obs] : finals_[static_cast<size_t>(slot)]) {
    if (at == t) return obs;
  }
  raise("a truncated step has no final observation in the replay buffer");
}

void ReplayBuffer::shape_sample(ReplaySample& out, int64_t n) const {
  out.index.clear();
  if (out.obs.defined() && out.obs.size(0) == n && out.obs.sizes().slice(1) == at::IntArrayRef(obs_shape_)) {
    out.weight.fill_(1);
    return;
  }
  std::vector<int64_t> shape = obs_shape_, action = action_.sizes().slice(2).vec();
  shape.insert(shape.begin(), n);
  action.insert(action.begin(), n);
  out.obs = torch::empty(shape, obs_.scalar_type());
  out.next_obs = torch::empty(shape, obs_.scalar_type());
  out.action = torch::empty(action, action_.scalar_type());
  out.reward = torch::empty({n});
  out.discount = torch::empty({n});
  out.weight = torch::ones({n});
}

ReplaySample ReplayBuffer::sample(int64_t n, double beta) {
  ReplaySample out;
  sample_into(out, n, beta);
  return out;
}

void ReplayBuffer::sample_into(ReplaySample& out, int64_t n, double beta) {
  PARL_CHECK(size() > 0, "nothing to sample from: the replay buffer is empty");
  shape_sample(out, n);
  const size_t obs_bytes = out.obs.nbytes() / static_cast<size_t>(n);
  const size_t action_bytes = out.action.nbytes() / static_cast<size_t>(n);
  const auto place = [](at::Tensor& tensor, size_t bytes, int64_t i) {
    return static_cast<std::byte*>(tensor.mutable_data_ptr()) + static_cast<size_t>(i) * bytes;
  };
  const double total = tree_.total();
  float* weight = out.weight.mutable_data_ptr<float>();
  for (int64_t i = 0; i < n; ++i) {
    // Prioritised draws are stratified: one from each nth of the sum.
    const int64_t at =
        options_.prioritized
            ? tree_.find((static_cast<double>(i) + rng_.uniform_double()) * total / static_cast<double>(n))
            : static_cast<int64_t>(rng_.below(static_cast<uint32_t>(size())));
    const int64_t slot = at / length_, first = at % length_;
    if (options_.prioritized) {
      weight[i] = static_cast<float>(std::pow(static_cast<double>(size()) * tree_.get(at) / total, -beta));
    }
    std::byte* next_obs = place(out.next_obs, obs_bytes, i);
    double reward = 0, discount = 1;
    int64_t t = first;
    bool ended = false;
    for (int64_t k = 0; k < options_.n_step && t < length_ && !ended; ++k, ++t) {
      reward += discount * reward_.const_data_ptr<float>()[slot * length_ + t];
      discount *= options_.gamma;
      if (terminated_.const_data_ptr<bool>()[slot * length_ + t]) {
        discount = 0;
        ended = true;
      } else if (truncated_.const_data_ptr<bool>()[slot * length_ + t]) {
        std::memcpy(next_obs, final_of(slot, t).const_data_ptr(), obs_bytes);
        ended = true;
      }
    }
    if (!ended) read_obs(slot, t, next_obs);
    if (discount == 0) std::memset(next_obs, 0, obs_bytes);
    read_obs(slot, first, place(out.obs, obs_bytes, i));
    std::memcpy(place(out.action, action_bytes, i),
                static_cast<const std::byte*>(action_.const_data_ptr()) + static_cast<size_t>(at) * action_bytes,
                action_bytes);
    out.reward.mutable_data_ptr<float>()[i] = static_cast<float>(reward);
    out.discount.mutable_data_ptr<float>()[i] = static_cast<float>(discount);
    out.index.push_back(at);
  }
  if (options_.prioritized) out.weight.div_(out.weight.max());
}

void ReplayBuffer::update_priorities(const std::vector<int64_t>& index, const at::Tensor& errors) {
  if (!options_.prioritized) return;
  PARL_CHECK_EQ(static_cast<int64_t>(index.size()), errors.numel());
  const at::Tensor values = errors.to(at::kCPU, at::kDouble).contiguous();
  for (size_t i = 0; i < index.size(); ++i) {
    const double priority = std::pow(std::abs(values.const_data_ptr<double>()[i]) + 1e-6, options_.alpha);
    max_priority_ = std::max(max_priority_, priority);
    tree_.set(index[i], priority);
  }
}

std::vector<std::pair<const char*, at::Tensor*>> ReplayBuffer::stored() {
  return {{"obs", &obs_},
          {"action", &action_},
          {"reward", &reward_},
          {"terminated", &terminated_},
          {"truncated", &truncated_}};
}

struct ReplayBuffer::Saved {
  at::Tensor counters, obs_shape, final_index, final_obs, priority;  // undefined where there is none

  std::vector<std::pair<const char*, at::Tensor*>> all() {
    return {{"counters", &counters},
            {"obs_shape", &obs_shape},
            {"final_index", &final_index},
            {"final_obs", &final_obs},
            {"priority", &priority}};
  }
};

// All but final_obs.
ReplayBuffer::Saved ReplayBuffer::saved() const {
  Saved out;
  out.counters =
      torch::tensor({next_, filled_, length_, slots_, depth_, static_cast<int64_t>(rng_.position())}, at::kLong);
  if (!obs_.defined()) return out;
  out.obs_shape = torch::tensor(obs_shape_, at::kLong);
  std::vector<int64_t> places;
  for (int64_t slot = 0; slot < filled_; ++slot) {
    for (const auto& [t, obs] : finals_[static_cast<size_t>(slot)]) places.push_back(slot * length_ + t);
  }
  out.final_index = torch::tensor(places, at::kLong);
  if (!options_.prioritized) return out;
  out.priority = torch::empty({size() + 1}, at::kDouble);
  double* to = out.priority.mutable_data_ptr<double>();
  for (int64_t i = 0; i < size(); ++i) to[i] = tree_.get(i);
  to[size()] = max_priority_;
  return out;
}

void ReplayBuffer::save(const std::string& path) const {
  std::vector<SafetensorsEntry> entries;
  const auto add = [&](const char* name, at::IntArrayRef shape, const at::Tensor& tensor) {
    const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
    entries.push_back({std::string(kPrefix) + name, to_dtype(tensor.scalar_type()), shape.vec(), {}});
    if (tensor.numel() > 0) entries.back().pieces.emplace_back(data, tensor.nbytes());
  };
  Saved small = saved();
  for (const auto& [name, tensor] : small.all()) {
    if (tensor->defined()) add(name, tensor->sizes(), *tensor);
  }
  if (obs_.defined()) {
    for (const auto& [name, tensor] : const_cast<ReplayBuffer*>(this)->stored()) {
      const at::Tensor filled = tensor->narrow(0, 0, filled_);
      add(name, filled.sizes(), filled);
    }
    std::vector<int64_t> shape = obs_shape_;
    shape.insert(shape.begin(), small.final_index.numel());
    add("final_obs", shape, torch::empty({0}, obs_.scalar_type()));
    for (const auto& finals : finals_) {
      for (const auto& [t, obs] : finals) {
        entries.back().pieces.emplace_back(static_cast<const std::byte*>(obs.const_data_ptr()), obs.nbytes());
      }
    }
  }
  SafetensorsMetadata checksums;
  for (const SafetensorsEntry& entry : entries) {
    uint32_t sum = 0;
    for (const auto& piece : entry.pieces) sum = crc32c(piece.data(), piece.size(), sum);
    checksums[kChecksum + entry.name] = std::to_string(sum);
  }
  save_safetensors(path, entries, checksums);
}

// `read` gives the saved tensor of a name, or puts it into the one given.
template <typename Read>
void ReplayBuffer::restore(const Read& read) {
  clear();
  const at::Tensor counters = read("counters", nullptr);
  PARL_CHECK_EQ(counters.numel(), 6, "a replay buffer's counters");
  const int64_t* n = counters.const_data_ptr<int64_t>();
  rng_.set_position(static_cast<uint64_t>(n[5]));
  if (n[3] == 0) return;
  const int64_t filled = n[1];
  length_ = n[2], slots_ = n[3], depth_ = n[4];
  PARL_CHECK(length_ > 0 && filled > 0 && filled <= slots_ && n[0] >= 0 && n[0] < slots_, "counters that cannot be");
  const at::Tensor shape = read("obs_shape", nullptr);
  obs_shape_.assign(shape.const_data_ptr<int64_t>(), shape.const_data_ptr<int64_t>() + shape.numel());
  for (const auto& [name, tensor] : stored()) read(name, tensor);
  finals_.assign(static_cast<size_t>(slots_), {});
  const at::Tensor places = read("final_index", nullptr);
  const at::Tensor finals = places.numel() > 0 ? read("final_obs", nullptr) : at::Tensor();
  for (int64_t i = 0; i < places.numel(); ++i) {
    const int64_t at = places.const_data_ptr<int64_t>()[i];
    finals_.at(static_cast<size_t>(at / length_))
        .emplace_back(at % length_, finals[i].clone(at::MemoryFormat::Contiguous));
  }
  next_ = n[0], filled_ = filled;
  if (!options_.prioritized) return;
  tree_ = SumTree(slots_ * length_);
  const at::Tensor priorities = read("priority", nullptr);
  PARL_CHECK_EQ(priorities.numel(), size() + 1);
  for (int64_t i = 0; i < size(); ++i) tree_.set(i, priorities.const_data_ptr<double>()[i]);
  max_priority_ = priorities.const_data_ptr<double>()[size()];
}

void ReplayBuffer::clear() {
  const ReplayOptions options = options_;
  const int64_t limit = memory_limit_;
  *this = ReplayBuffer(options);
  memory_limit_ = limit;
}

void ReplayBuffer::load(const std::string& path) try {
  SafetensorsFile file(path);
  // Into the whole buffer's memory at once: its first rows are what was filled.
  restore([&](const char* name, at::Tensor* whole) {
    const std::string key = std::string(kPrefix) + name;
    std::vector<int64_t> sizes = file.shape(key);
    if (whole) {
      PARL_CHECK(!sizes.empty() && sizes[0] <= slots_, "'{}' has more than the buffer holds", key);
      sizes[0] = slots_;
    }
    const at::Tensor to = torch::empty(sizes, to_scalar_type(file.dtype(key)));
    const at::Tensor part = whole ? to.narrow(0, 0, file.shape(key)[0]) : to;
    file.read(key, {static_cast<std::byte*>(part.mutable_data_ptr()), part.nbytes()});
    const auto known = file.metadata().find(kChecksum + key);  // earlier versions wrote none
    PARL_CHECK(
        known == file.metadata().end() || known->second == std::to_string(crc32c(part.const_data_ptr(), part.nbytes())),
        "'{}' is damaged: its checksum is another", key);
    if (whole) *whole = to;
    return to;
  });
} catch (const std::exception& error) {
  clear();
  raise("the replay buffer in '{}' cannot be read: {}", path, error.what());
}

void ReplayBuffer::append_state(Weights& state) const {
  const auto add = [&](const char* name, const at::Tensor& tensor) {
    state.entries.push_back({std::string(kPrefix) + name, to_array(tensor)});
  };
  Saved small = saved();
  std::vector<at::Tensor> finals;
  for (const auto& of_slot : finals_) {
    for (const auto& [t, obs] : of_slot) finals.push_back(obs);
  }
  if (!finals.empty()) small.final_obs = at::stack(finals);
  for (const auto& [name, tensor] : small.all()) {
    if (tensor->defined()) add(name, *tensor);
  }
  if (!obs_.defined()) return;
  for (const auto& [name, tensor] : const_cast<ReplayBuffer*>(this)->stored()) add(name, tensor->narrow(0, 0, filled_));
}

void ReplayBuffer::set_state(const Weights& state) {
  restore([&](const char* name, at::Tensor* whole) {
    const at::Tensor saved = to_tensor(get_entry(state, std::string(kPrefix) + name));
    if (!whole) return saved;
    std::vector<int64_t> sizes = saved.sizes().vec();
    sizes[0] = slots_;
    *whole = torch::empty(sizes, saved.scalar_type());
    whole->narrow(0, 0, saved.size(0)).copy_(saved);
    return *whole;
  });
}

}  // namespace parl
