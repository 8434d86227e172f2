#include "parl/env_multi/gather.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "parl/env/state_io.h"

namespace parl {

Gather::Gather(GatherOptions options) : options_(options) {
  PARL_CHECK(options.agents >= 2 && options.agents <= kMaxAgents, "multi:gather has 2..{} agents, not {}", kMaxAgents,
             options.agents);
  PARL_CHECK(options.fruit >= 1 && options.fruit <= kMaxFruit, "multi:gather has 1..{} pieces of fruit, not {}",
             kMaxFruit, options.fruit);
  spec_.id = "multi:gather";
  const int64_t size = 2 + 2 * (options.agents - 1) + 4 * options.fruit;
  for (int i = 0; i < options.agents; ++i) {
    spec_.agents.push_back({fmt::format("gatherer_{}", i), Box{DType::kF32, {size}, {-1.0}, {1.0}}, Discrete{5}});
  }
  spec_.contract = fmt::format(
      "multi:gather, {0}x{0} cells, {1} agents, {2} pieces of fruit, {3}", kSize, options.agents, options.fruit,
      options.max_steps > 0 ? fmt::format("at most {} steps", options.max_steps) : "no step limit");
}

bool Gather::taken(Cell cell) const {
  for (int i = 0; i < options_.agents; ++i) {
    if (state_.agents[static_cast<size_t>(i)] == cell) return true;
  }
  for (const Fruit& fruit : state_.fruit) {
    if (fruit.weight > 0 && fruit.at == cell) return true;
  }
  return false;
}

// `inside`: not at the edge, so that two agents always find room beside it.
Gather::Cell Gather::free_cell(bool inside) {
  const uint32_t cells = inside ? kSize - 2 : kSize;
  for (;;) {
    Cell cell{static_cast<int>(rng_.below(cells)), static_cast<int>(rng_.below(cells))};
    if (inside) cell = {cell.x + 1, cell.y + 1};
    bool crowded = taken(cell);
    for (const Fruit& fruit : state_.fruit) {  // fruit leaves a way between itself and other fruit
      crowded =
          crowded || (inside && fruit.weight > 0 && std::abs(fruit.at.x - cell.x) + std::abs(fruit.at.y - cell.y) < 2);
    }
    if (!crowded) return cell;
  }
}

void Gather::reset(std::optional<uint64_t> seed, Places obs) {
  if (seed) rng_ = CounterRng(*seed, 0);
  state_ = {};
  for (Cell& cell : state_.agents) cell = {-1, -1};
  for (int i = 0; i < options_.fruit; ++i) {
    const Cell at = free_cell(true);
    const int weight = 1 + static_cast<int>(rng_.below(2));
    state_.fruit[static_cast<size_t>(i)] = {at, weight};
    state_.total += weight;
  }
  state_.left = state_.total;
  for (int i = 0; i < options_.agents; ++i) state_.agents[static_cast<size_t>(i)] = free_cell(false);
  state_.running = true;
  write(obs);
}

void Gather::move(int agent, int64_t action) {
  constexpr std::array<Cell, 5> kMoves{{{0, 0}, {0, -1}, {0, 1}, {-1, 0}, {1, 0}}};
  Cell& at = state_.agents[static_cast<size_t>(agent)];
  const Cell move = kMoves[static_cast<size_t>(action)];
  const Cell next{at.x + move.x, at.y + move.y};
  const bool inside = next.x >= 0 && next.x < kSize && next.y >= 0 && next.y < kSize;
  if (action != 0 && inside && !taken(next)) at = next;
}

void Gather::pick(std::span<StepResult> results) {
  for (Fruit& fruit : state_.fruit) {
    if (fruit.weight == 0) continue;
    std::array<int, kMaxAgents> beside{};
    int count = 0;
    for (int i = 0; i < options_.agents; ++i) {
      const Cell at = state_.agents[static_cast<size_t>(i)];
      if (std::abs(at.x - fruit.at.x) + std::abs(at.y - fruit.at.y) == 1) beside[static_cast<size_t>(count++)] = i;
    }
    if (count < fruit.weight) continue;
    const float share = static_cast<float>(fruit.weight) / static_cast<float>(state_.total * count);
    for (int k = 0; k < count; ++k) results[static_cast<size_t>(beside[static_cast<size_t>(k)])].reward += share;
    state_.left -= fruit.weight;
    fruit.weight = 0;
  }
}

void Gather::step(std::span<const Action> actions, Places obs, std::span<StepResult> results) {
  PARL_CHECK(state_.running, "'{}': step() after the end of an episode or before the first reset(); call reset()",
             spec_.id);
  const auto agents = static_cast<size_t>(options_.agents);
  for (size_t i = 0; i < agents; ++i) {
    PARL_CHECK(actions[i].index >= 0 && actions[i].index < 5, "'{}' has the actions 0..4, not {}", spec_.id,
               actions[i].index);
  }
  for (size_t i = 0; i < agents; ++i) {
    results[i] = {};
    move(static_cast<int>(i), actions[i].index);
  }
  pick(results);
  ++state_.steps;
  const bool all = state_.left == 0;
  const bool late = !all && options_.max_steps > 0 && state_.steps >= options_.max_steps;
  for (size_t i = 0; i < agents; ++i) {
    results[i].terminated = all;
    results[i].truncated = late;
  }
  state_.running = !all && !late;
  write(obs);
}

void Gather::scalars(size_t /*agent*/, std::vector<std::pair<std::string, double>>& out) const {
  out.emplace_back("gathered", 1.0 - static_cast<double>(state_.left) / std::max(1, state_.total));
}

void Gather::write(Places obs) const {
  constexpr float kScale = 1.0f / (kSize - 1);
  for (int i = 0; i < options_.agents; ++i) {
    std::array<float, 2 + 2 * (kMaxAgents - 1) + 4 * kMaxFruit> values{};
    size_t n = 0;
    const Cell own = state_.agents[static_cast<size_t>(i)];
    values[n++] = 2 * static_cast<float>(own.x) * kScale - 1;
    values[n++] = 2 * static_cast<float>(own.y) * kScale - 1;
    for (int k = 1; k < options_.agents; ++k) {
      const Cell other = state_.agents[static_cast<size_t>((i + k) % options_.agents)];
      values[n++] = static_cast<float>(other.x - own.x) * kScale;
      values[n++] = static_cast<float>(other.y - own.y) * kScale;
    }
    for (int k = 0; k < options_.fruit; ++k) {
      const Fruit& fruit = state_.fruit[static_cast<size_t>(k)];
      const bool there = fruit.weight > 0;
      values[n++] = there ? static_cast<float>(fruit.at.x - own.x) * kScale : 0;
      values[n++] = there ? static_cast<float>(fruit.at.y - own.y) * kScale : 0;
      values[n++] = static_cast<float>(fruit.weight) / 2;
      values[n++] = there ? 1 : 0;
    }
    const auto place = obs[static_cast<size_t>(i)];
    PARL_CHECK_EQ(place.size(), n * sizeof(float), "the place for an observation of '{}'", spec_.id);
    std::memcpy(place.data(), values.data(), n * sizeof(float));
  }
}

void Gather::render(Image& out) {
  constexpr int kCell = 24;
  out.width = out.height = kSize * kCell;
  out.rgb.assign(static_cast<size_t>(out.width * out.height * 3), 30);
  const auto fill = [&](Cell cell, int margin, std::array<uint8_t, 3> rgb) {
    for (int row = cell.y * kCell + margin; row < (cell.y + 1) * kCell - margin; ++row) {
      for (int column = cell.x * kCell + margin; column < (cell.x + 1) * kCell - margin; ++column)
        std::memcpy(&out.rgb[static_cast<size_t>((row * out.width + column) * 3)], rgb.data(), 3);
    }
  };
  constexpr std::array<std::array<uint8_t, 3>, kMaxAgents> kColours{
      {{80, 160, 255}, {255, 140, 60}, {120, 220, 120}, {220, 120, 220}}};
  for (const Fruit& fruit : state_.fruit) {
    if (fruit.weight > 0) fill(fruit.at, fruit.weight == 2 ? 3 : 8, {230, 60, 80});
  }
  for (int i = 0; i < options_.agents; ++i)
    fill(state_.agents[static_cast<size_t>(i)], 2, kColours[static_cast<size_t>(i)]);
}

std::vector<std::byte> Gather::save_state() const {
  StateWriter out;
  out.put(options_.agents);
  out.put(options_.fruit);
  out.put(rng_);
  out.put(state_);
  return out.take();
}

void Gather::load_state(std::span<const std::byte> state) {
  StateReader in(state);
  int agents = 0, fruit = 0;
  in.get(agents);
  in.get(fruit);
  PARL_CHECK(agents == options_.agents && fruit == options_.fruit,
             "this state is of a game with {} agents and {} pieces of fruit", agents, fruit);
  in.get(rng_);
  in.get(state_);
  in.finish();
}

}  // namespace parl
