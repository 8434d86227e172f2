#include "parl/data/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "parl/agent/safetensors.h"
#include "parl/core/check.h"

namespace parl {
namespace {

constexpr const char* kFormat = "parl-episodes-1";

Array take(Weights& entries, const std::string& name, const std::string& path) {
  for (NamedArray& entry : entries.entries) {
    if (entry.name == name) return std::move(entry.array);
  }
  raise(
      "'{}' has no '{}': it is no file of recorded episodes (parl record writes them; parl/data/recording.h says what "
      "is in one)",
      path, name);
}

int64_t bytes_of_one(const Array& rows) {
  return rows.dim(0) > 0 ? static_cast<int64_t>(rows.bytes()) / rows.dim(0) : 0;
}

Shape with_lead(const Shape& rows, Shape lead) {
  lead.insert(lead.end(), rows.begin() + 1, rows.end());
  return lead;
}

// Whether the mask of legal actions, a byte for each choice, forbids number `chosen` of the `count` from `first` on.
// Where it forbids them all, as at the end of a game, all count as legal (agent/masked_model.h).
bool is_forbidden(const std::byte* mask, int64_t first, int64_t count, int64_t chosen) {
  const auto is_set = [](std::byte b) { return b != std::byte{0}; };
  return !is_set(mask[first + chosen]) && std::any_of(mask + first, mask + first + count, is_set);
}

void check_legal(const RecordedEpisodes& r, const ModelSpec& spec, const std::string& name) {
  const ObsPart* mask = spec.action_mask();
  if (!mask) return;
  const std::vector<int64_t> choices =
      spec.action_choices.empty() ? std::vector<int64_t>{spec.num_actions} : spec.action_choices;
  const auto numbers = static_cast<int64_t>(choices.size());
  for (int64_t s = 0; s < r.steps(); ++s) {
    const std::byte* legal = r.obs.data() + s * bytes_of_one(r.obs) + mask->offset;
    int64_t first = 0;
    for (int64_t k = 0; k < numbers; ++k) {
      const int64_t count = choices[static_cast<size_t>(k)], chosen = r.action.data<int64_t>()[s * numbers + k];
      PARL_CHECK(chosen >= 0 && chosen < count, "'{}': action {} at step {} is none of 0..{}", name, chosen, s,
                 count - 1);
      PARL_CHECK(!is_forbidden(legal, first, count, chosen),
                 "'{}': the mask of legal actions forbids action {} at step {}, and no policy here takes such a one: "
                 "record the episodes anew, or leave out those that have one",
                 name, chosen, s);
      first += count;
    }
  }
}

// The first row of a float array that holds NaN or inf, or -1.
int64_t nonfinite_row(const Array& rows) {
  const int64_t n = rows.size(), each = rows.dim(0) > 0 ? n / rows.dim(0) : 1;
  const auto find = [&](const auto* values) -> int64_t {
    for (int64_t i = 0; i < n; ++i) {
      if (!std::isfinite(values[i])) return i / each;
    }
    return -1;
  };
  if (rows.dtype() == DType::kF32) return find(rows.data<float>());
  if (rows.dtype() == DType::kF64) return find(rows.data<double>());
  return -1;
}

}  // namespace

void RecordedEpisodes::check(const std::string& name) const {
  const auto must = [&](bool ok, const char* what) { PARL_CHECK(ok, "'{}': {}", name, what); };
  must(reward.ndim() == 1 && reward.dtype() == DType::kF32 && reward.dim(0) > 0, "reward must be [S] float32, S > 0");
  must(episode_length.ndim() == 1 && episode_length.dtype() == DType::kI64, "episode_length must be [E] int64");
  must(terminated.shape() == episode_length.shape() && terminated.dtype() == DType::kBool,
       "terminated must be [E] bool");
  must(obs.ndim() >= 1 && obs.dim(0) == steps(), "obs must have as many rows as there are rewards");
  must(final_obs.ndim() == obs.ndim() && final_obs.dtype() == obs.dtype() && final_obs.dim(0) == episodes() &&
           with_lead(final_obs.shape(), {}) == with_lead(obs.shape(), {}),
       "final_obs must have one observation for each episode");
  const bool discrete = action.ndim() == 1 && action.dtype() == DType::kI64;
  const bool several = action.ndim() == 2 && action.dtype() == DType::kI64;
  const bool continuous = action.ndim() == 2 && action.dtype() == DType::kF32;
  must((discrete || several || continuous) && action.dim(0) == steps(),
       "action must be [S] or [S, K] int64, or [S, A] float32");
  int64_t sum = 0;
  for (int64_t i = 0; i < episodes(); ++i) {
    must(episode_length.data<int64_t>()[i] > 0, "every episode has at least one step");
    sum += episode_length.data<int64_t>()[i];
  }
  must(sum == steps(), "episode_length must sum to the number of steps");
  for (const auto& [what, rows] :
       {std::pair{"reward", &reward}, std::pair{"obs", &obs}, std::pair{"action", &action}}) {
    const int64_t row = nonfinite_row(*rows);
    PARL_CHECK(row < 0, "'{}': NaN or inf in {} at step {}; nothing can be learnt from it", name, what, row);
  }
  const int64_t last = nonfinite_row(final_obs);
  PARL_CHECK(last < 0, "'{}': NaN or inf in final_obs of episode {}; nothing can be learnt from it", name, last);
  for (int64_t i = 0; i < episodes(); ++i) {
    const int byte = static_cast<int>(terminated.data()[i]);
    PARL_CHECK(byte <= 1, "'{}': terminated of episode {} is {}, expected 0 or 1", name, i, byte);
  }
  for (int64_t i = 0; discrete && i < steps(); ++i) {
    const int64_t a = action.data<int64_t>()[i];
    PARL_CHECK(a >= 0 && a < num_actions, "'{}': action {} at step {} is none of 0..{}", name, a, i, num_actions - 1);
  }
}

void RecordedEpisodes::check_fits(const ModelSpec& spec, const std::string& run_env, const std::string& name) const {
  const Shape one = with_lead(obs.shape(), {});
  PARL_CHECK(one == Shape(spec.obs_shape.begin(), spec.obs_shape.end()) && obs.dtype() == spec.obs_dtype,
             "'{}' was recorded in '{}' and has observations {} [{}], not those of '{}', {} [{}]: give the --env (and "
             "--env-args) that it was recorded in",
             name, env, dtype_name(obs.dtype()), fmt::join(one, ","), run_env, dtype_name(spec.obs_dtype),
             fmt::join(spec.obs_shape, ","));
  const int64_t size = action.dtype() == DType::kF32 ? action.dim(1) : 0;
  const auto several = static_cast<int64_t>(spec.action_choices.size());
  const bool numbers_fit = size > 0 || (action.ndim() == 2 ? action.dim(1) : 0) == several;
  PARL_CHECK(size == spec.action_size && numbers_fit && (size > 0 || num_actions == spec.num_actions),
             "'{}' was recorded in '{}' and has other actions than '{}': give the --env that it was recorded in", name,
             env, run_env);
  check_legal(*this, spec, name);
}

int64_t RecordedEpisodes::clip_actions(const ModelSpec& spec) {
  const auto size = static_cast<size_t>(spec.action_size);
  int64_t changed = 0;
  float* a = size > 0 ? action.data<float>() : nullptr;
  for (int64_t s = 0; size > 0 && s < steps(); ++s) {
    bool outside = false;
    for (size_t i = 0; i < size; ++i, ++a) {
      if (!std::isfinite(spec.action_low[i]) || !std::isfinite(spec.action_high[i])) continue;
      outside |= *a < -1 || *a > 1;
      *a = std::clamp(*a, -1.0f, 1.0f);
    }
    changed += outside;
  }
  return changed;
}

void save_recording(const std::string& path, const RecordedEpisodes& r) {
  r.check(path);
  Weights out;
  const auto add = [&](const char* name, const Array& array) { out.entries.push_back({name, array}); };
  add("obs", r.obs);
  add("action", r.action);
  add("reward", r.reward);
  add("episode_length", r.episode_length);
  add("terminated", r.terminated);
  add("final_obs", r.final_obs);
  save_safetensors(
      path, out,
      {{"format", kFormat}, {"env", r.env}, {"contract", r.contract}, {"num_actions", std::to_string(r.num_actions)}});
}

RecordedEpisodes load_recording(const std::string& path) {
  SafetensorsMetadata metadata;
  Weights entries = load_safetensors(path, &metadata);
  const auto text = [&](const char* key) { return metadata.contains(key) ? metadata.at(key) : std::string(); };
  RecordedEpisodes r;
  r.obs = take(entries, "obs", path);
  r.action = take(entries, "action", path);
  r.reward = take(entries, "reward", path);
  r.episode_length = take(entries, "episode_length", path);
  r.terminated = take(entries, "terminated", path);
  r.final_obs = take(entries, "final_obs", path);
  r.env = text("env");
  r.contract = text("contract");
  PARL_CHECK(text("format") == kFormat, "'{}' has format '{}', this version reads '{}'", path, text("format"), kFormat);
  const std::string actions = text("num_actions");
  const auto [end, error] = std::from_chars(actions.data(), actions.data() + actions.size(), r.num_actions);
  PARL_CHECK(error == std::errc() && end == actions.data() + actions.size() && r.num_actions >= 0,
             "'{}': its num_actions is '{}', expected a whole number, 0 for continuous actions", path, actions);
  r.check(path);
  return r;
}

RecordedUnrolls::RecordedUnrolls(RecordedEpisodes recording, uint64_t seed, uint64_t stream)
    : recording_(std::move(recording)),
      episode_of_end_(static_cast<size_t>(recording_.steps()), -1),
      random_(seed, stream) {
  int64_t end = -1;
  for (int64_t i = 0; i < recording_.episodes(); ++i) {
    end += recording_.episode_length.data<int64_t>()[i];
    episode_of_end_[static_cast<size_t>(end)] = i;
  }
}

Rollout RecordedUnrolls::next(int64_t B, int64_t T, int64_t policy_size) {
  const RecordedEpisodes& r = recording_;
  const int64_t steps = r.steps(), obs_bytes = bytes_of_one(r.obs), action_bytes = bytes_of_one(r.action);
  Rollout out;
  out.obs = Array::empty(r.obs.dtype(), with_lead(r.obs.shape(), {B, T + 1}));
  out.action = Array::empty(r.action.dtype(), with_lead(r.action.shape(), {B, T}));
  out.behaviour_logits = Array(DType::kF32, {B, T, policy_size});
  out.reward = Array::empty(DType::kF32, {B, T});
  out.terminated = Array(DType::kBool, {B, T});
  out.truncated = Array(DType::kBool, {B, T});
  std::vector<std::pair<int64_t, int64_t>> finals;  // (b * T + t, episode)
  const auto copy = [](Array& to, int64_t row, const Array& from, int64_t from_row, int64_t bytes) {
    std::memcpy(to.data() + row * bytes, from.data() + from_row * bytes, static_cast<size_t>(bytes));
  };
  for (int64_t b = 0; b < B; ++b) {
    int64_t at = static_cast<int64_t>(random_.below(static_cast<uint32_t>(steps)));
    for (int64_t t = 0; t < T; ++t, at = (at + 1) % steps) {
      const int64_t row = b * T + t, ends = episode_of_end_[static_cast<size_t>(at)];
      copy(out.obs, b * (T + 1) + t, r.obs, at, obs_bytes);
      copy(out.action, row, r.action, at, action_bytes);
      out.reward.data<float>()[row] = r.reward.data<float>()[at];
      if (ends < 0) continue;
      const bool terminated = r.terminated.data<bool>()[ends];
      out.terminated.data<bool>()[row] = terminated;
      out.truncated.data<bool>()[row] = !terminated;
      if (!terminated) finals.emplace_back(row, ends);
    }
    copy(out.obs, b * (T + 1) + T, r.obs, at, obs_bytes);
  }
  const auto count = static_cast<int64_t>(finals.size());
  out.final_index = Array::empty(DType::kI64, {count});
  out.final_obs = Array::empty(r.obs.dtype(), with_lead(r.obs.shape(), {count}));
  for (int64_t i = 0; i < count; ++i) {
    out.final_index.data<int64_t>()[i] = finals[static_cast<size_t>(i)].first;
    copy(out.final_obs, i, r.final_obs, finals[static_cast<size_t>(i)].second, obs_bytes);
  }
  return out;
}

}  // namespace parl
