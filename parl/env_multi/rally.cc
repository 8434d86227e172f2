#include "parl/env_multi/rally.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "parl/env/state_io.h"

namespace parl {

Rally::Rally(int64_t max_steps) : max_steps_(max_steps) {
  spec_.id = "multi:rally";
  const Box seen{DType::kF32, {6}, {-1.0}, {1.0}};
  spec_.agents = {{"near", seen, Discrete{3}}, {"far", seen, Discrete{3}}};
  spec_.contract = fmt::format("multi:rally, court {}x{}, paddles of 3, {}", kWidth, kLength,
                               max_steps > 0 ? fmt::format("at most {} steps", max_steps) : "no step limit");
}

void Rally::reset(std::optional<uint64_t> seed, Places obs) {
  if (seed) rng_ = CounterRng(*seed, 0);
  paddle_ = {kWidth / 2, kWidth / 2};
  x_ = static_cast<int>(rng_.below(kWidth));
  y_ = kLength / 2;
  dx_ = static_cast<int>(rng_.below(3)) - 1;
  dy_ = rng_.below(2) == 0 ? -1 : 1;
  steps_ = returned_ = 0;
  running_ = true;
  write(obs);
}

void Rally::step(std::span<const Action> actions, Places obs, std::span<StepResult> results) {
  PARL_CHECK(running_, "'{}': step() after the end of an episode or before the first reset(); call reset()", spec_.id);
  for (size_t i = 0; i < 2; ++i) {
    PARL_CHECK(actions[i].index >= 0 && actions[i].index < 3, "'{}' has the actions 0..2, not {}", spec_.id,
               actions[i].index);
  }
  for (size_t i = 0; i < 2; ++i)
    paddle_[i] = std::clamp(paddle_[i] + static_cast<int>(actions[i].index) - 1, 1, kWidth - 2);
  ++steps_;
  x_ += dx_;
  if (x_ < 0 || x_ >= kWidth) {
    dx_ = -dx_;
    x_ += 2 * dx_;
  }
  y_ += dy_;
  results[0] = results[1] = {};
  const bool arrived = y_ == 0 || y_ == kLength - 1;
  if (arrived) {
    const size_t agent = y_ == 0 ? 0 : 1;
    if (!send_back(agent)) {
      results[agent].reward = -1;
      results[1 - agent].reward = 1;
      results[0].terminated = results[1].terminated = true;
    }
  }
  const bool over = results[0].terminated;
  if (!over && max_steps_ > 0 && steps_ >= max_steps_) results[0].truncated = results[1].truncated = true;
  running_ = !results[0].done();
  write(obs);
}

bool Rally::send_back(size_t agent) {
  const int offset = x_ - paddle_[agent];
  if (offset < -1 || offset > 1) return false;
  dx_ = offset;
  dy_ = -dy_;
  ++returned_;
  return true;
}

void Rally::scalars(size_t /*agent*/, std::vector<std::pair<std::string, double>>& out) const {
  out.emplace_back("rally", static_cast<double>(returned_));
}

void Rally::write(Places obs) const {
  const auto scaled = [](int cell, int cells) {
    return 2.0f * static_cast<float>(cell) / static_cast<float>(cells - 1) - 1;
  };
  for (size_t i = 0; i < 2; ++i) {
    const int y = i == 0 ? y_ : kLength - 1 - y_, dy = i == 0 ? dy_ : -dy_;
    const float values[6] = {scaled(paddle_[i], kWidth), scaled(paddle_[1 - i], kWidth), scaled(x_, kWidth),
                             scaled(y, kLength),         static_cast<float>(dx_),        static_cast<float>(dy)};
    PARL_CHECK_EQ(obs[i].size(), sizeof(values), "the place for an observation of '{}'", spec_.id);
    std::memcpy(obs[i].data(), values, sizeof(values));
  }
}

void Rally::render(Image& out) {
  constexpr int kCell = 16;
  out.width = kWidth * kCell;
  out.height = kLength * kCell;
  out.rgb.assign(static_cast<size_t>(out.width * out.height * 3), 24);
  const auto fill = [&](int x, int y, uint8_t r, uint8_t g, uint8_t b) {
    for (int row = y * kCell; row < (y + 1) * kCell; ++row) {
      for (int column = x * kCell; column < (x + 1) * kCell; ++column) {
        uint8_t* pixel = &out.rgb[static_cast<size_t>((row * out.width + column) * 3)];
        pixel[0] = r;
        pixel[1] = g;
        pixel[2] = b;
      }
    }
  };
  for (int k = -1; k <= 1; ++k) {
    fill(paddle_[0] + k, kLength - 1, 80, 160, 255);  // the near one below
    fill(paddle_[1] + k, 0, 255, 140, 60);
  }
  fill(x_, kLength - 1 - y_, 240, 240, 240);
}

std::vector<std::byte> Rally::save_state() const {
  StateWriter out;
  out.put(rng_);
  out.put(paddle_);
  for (int value : {x_, y_, dx_, dy_}) out.put(value);
  out.put(steps_);
  out.put(returned_);
  out.put(running_);
  return out.take();
}

void Rally::load_state(std::span<const std::byte> state) {
  StateReader in(state);
  in.get(rng_);
  in.get(paddle_);
  for (int* value : {&x_, &y_, &dx_, &dy_}) in.get(*value);
  in.get(steps_);
  in.get(returned_);
  in.get(running_);
  in.finish();
}

}  // namespace parl
