#include "parl/env_atari/atari_env.h"

#include <algorithm>
#include <cstring>

#include "parl/env_atari/atari.h"

namespace parl {
namespace {

constexpr int kNoop = 0, kFire = 1;  // positions in every action set, and the ALE's codes

Emulator::Settings emulator_settings(const std::string& game, const AtariOptions& options) {
  return {atari_rom(game), options.sticky, options.max_frames, options.all_actions, options.mode, options.difficulty};
}

}  // namespace

AtariEnv::AtariEnv(const std::string& game, const AtariOptions& options)
    : options_(options),
      emulator_(emulator_settings(game, options)),
      resize_(emulator_.height(), emulator_.width(), options.size) {
  const auto& actions = emulator_.actions();
  has_fire_ = actions.size() >= 3 && actions[kFire] == kFire;
  const int64_t size = options.size;
  spec_.id = "atari:" + game;
  spec_.observation = Box{DType::kU8, {size, size, options.stack}, {0}, {255}};
  spec_.action = Discrete{static_cast<int64_t>(actions.size())};
  spec_.max_episode_steps = (options.max_frames + options.frame_skip - 1) / options.frame_skip;
  spec_.frames_per_step = options.frame_skip;
  spec_.contract = atari_contract(game, options, static_cast<int>(actions.size()), has_fire_);
  grey_.resize(static_cast<size_t>(emulator_.height()) * emulator_.width());
  picture_.resize(size * size);
  stack_.resize(size * size * options.stack);
  finished_.reserve(64);
}

void AtariEnv::reset(std::optional<uint64_t> seed, std::span<std::byte> obs) {
  PARL_CHECK_EQ(obs.size(), stack_.size(), "the place for the observation has the wrong size");
  if (seed) {
    emulator_.load(static_cast<uint32_t>((*seed ^ (*seed >> 31)) & 0x7fffffff));  // seeds below 2^31 as in the ALE
    noop_random_ = CounterRng(*seed, 0);
    after_ = After::kGameOver;
  }
  const bool after_life = after_ == After::kLifeLost;
  if (!after_life) start_game(!seed);
  serve(after_life, true);
  see(!one_frame_);
  fill_stack(obs);
  after_ = After::kGameOver;
  step_score_ = 0;
  running_ = true;
}

StepResult AtariEnv::step(const Action& action, std::span<std::byte> obs) {
  PARL_CHECK(running_, "step() before reset(): the episode of '{}' has ended or not begun", spec_.id);
  PARL_CHECK_EQ(obs.size(), stack_.size(), "the place for the observation has the wrong size");
  PARL_CHECK(action.index >= 0 && action.index < static_cast<int64_t>(emulator_.actions().size()),
             "action {} is not in 0..{}", action.index, emulator_.actions().size() - 1);
  step_score_ = 0;
  ++length_;
  play(static_cast<int>(action.index));
  const bool life = options_.life_loss_ends && life_lost();
  lives_ = emulator_.lives();
  const bool goes_on = life && options_.evaluation && !over();
  if (goes_on) serve(true, false);
  see(true);
  goes_on ? fill_stack(obs) : push_stack(obs);

  StepResult result;
  result.reward = static_cast<float>(options_.sign_reward ? (step_score_ > 0) - (step_score_ < 0) : step_score_);
  result.terminated = emulator_.game_over() || (life && !options_.evaluation);
  result.truncated = emulator_.capped() && !result.terminated;
  if (result.done()) {
    running_ = false;
    after_ = over() ? After::kGameOver : After::kLifeLost;
  }
  return result;
}

void AtariEnv::play(int action) {
  double points = 0;
  for (int i = 0; i < options_.frame_skip && !over(); ++i) points += emulator_.play(action);
  one_frame_ = false;
  score_ += points;
  step_score_ += points;
  if (over()) finished_.push_back({score_, length_, !emulator_.game_over(), {}});
}

bool AtariEnv::life_lost() const {
  const int lives = emulator_.lives();
  return lives > 0 && lives < lives_;
}

void AtariEnv::start_game(bool restart) {
  if (restart) emulator_.restart();
  score_ = 0;
  length_ = 0;
  one_frame_ = true;
  if (options_.noops_max > 0) {
    const auto range = static_cast<uint32_t>(options_.noops_max - options_.noops_min + 1);
    for (int left = options_.noops_min + static_cast<int>(noop_random_.below(range)); left > 0; --left) {
      score_ += emulator_.play(kNoop);
      if (over()) {
        emulator_.restart();
        score_ = 0;
      }
    }
  }
  lives_ = emulator_.lives();
}

// One step of the contract's own. Where it ends the game, the next one begins (next_game); a life lost in it is
// answered with a step without action.
void AtariEnv::play_in_sequence(int action, bool next_game) {
  if (over()) return;  // the game ended earlier in the sequence, and no other may begin
  play(action);
  if (!over() && options_.life_loss_ends && life_lost()) play(kNoop);
  if (over() && next_game) start_game(true);
  lives_ = emulator_.lives();
}

void AtariEnv::serve(bool after_life, bool next_game) {
  if (after_life) {
    lives_ = emulator_.lives();
    play_in_sequence(kNoop, next_game);
  }
  if (!options_.fire_reset || !has_fire_) return;
  play_in_sequence(kFire, next_game);
  play_in_sequence(2, next_game);
}

void AtariEnv::see(bool both_frames) {
  const uint8_t* last = emulator_.frame();
  if (both_frames && options_.pool_max) {
    grey_max(last, emulator_.previous_frame(), emulator_.grey_table(), grey_.data(), grey_.size());
  } else {
    grey(last, emulator_.grey_table(), grey_.data(), grey_.size());
  }
  resize_(grey_.data(), picture_.data());
}

void AtariEnv::fill_stack(std::span<std::byte> obs) {
  uint8_t* to = stack_.data();
  for (const uint8_t pixel : picture_) {
    std::memset(to, pixel, options_.stack);
    to += options_.stack;
  }
  std::memcpy(obs.data(), stack_.data(), stack_.size());
}

void AtariEnv::push_stack(std::span<std::byte> obs) {
  const size_t count = picture_.size(), depth = options_.stack;
  if (depth == 4) {  // one 32-bit shift per pixel; the newest byte is the last channel (little-endian)
    const uint8_t* __restrict picture = picture_.data();
    uint8_t* __restrict stack = stack_.data();
    for (size_t i = 0; i < count; ++i) {
      uint32_t pixel;
      std::memcpy(&pixel, stack + 4 * i, 4);
      pixel = (pixel >> 8) | (static_cast<uint32_t>(picture[i]) << 24);
      std::memcpy(stack + 4 * i, &pixel, 4);
    }
  } else {
    for (size_t i = 0; i < count; ++i) {
      uint8_t* pixel = stack_.data() + i * depth;
      std::memmove(pixel, pixel + 1, depth - 1);
      pixel[depth - 1] = picture_[i];
    }
  }
  std::memcpy(obs.data(), stack_.data(), stack_.size());
}

void AtariEnv::take_episodes(std::vector<Episode>& out) {
  out.insert(out.end(), std::make_move_iterator(finished_.begin()), std::make_move_iterator(finished_.end()));
  finished_.clear();
}

void AtariEnv::grey_frames(std::vector<uint8_t>& last, std::vector<uint8_t>& previous) const {
  last.resize(grey_.size());
  previous.resize(grey_.size());
  grey(emulator_.frame(), emulator_.grey_table(), last.data(), last.size());
  grey(emulator_.previous_frame(), emulator_.grey_table(), previous.data(), previous.size());
}

std::vector<std::byte> AtariEnv::save_state() const {
  StateWriter out;
  out.put_bytes(std::as_bytes(std::span(spec_.contract)));
  emulator_.save(out);
  out.put(noop_random_.seed());
  out.put(noop_random_.position());
  out.put_bytes(std::as_bytes(std::span(stack_)));
  out.put(running_);
  out.put(after_);
  out.put(one_frame_);
  out.put(lives_);
  out.put(score_);
  out.put(step_score_);
  out.put(length_);
  out.put(static_cast<uint64_t>(finished_.size()));
  for (const Episode& e : finished_) {
    out.put(e.raw_return);
    out.put(e.length);
    out.put(e.truncated);
  }
  return out.take();
}

void AtariEnv::load_state(std::span<const std::byte> state) {
  StateReader in(state);
  const auto contract = in.block();
  const std::string theirs(reinterpret_cast<const char*>(contract.data()), contract.size());
  PARL_CHECK_EQ(theirs, spec_.contract, "the saved state is of another environment");
  emulator_.load_state(in);
  uint64_t seed = 0, position = 0, count = 0;
  in.get(seed);
  in.get(position);
  noop_random_ = CounterRng(seed, 0);
  noop_random_.set_position(position);
  in.get_bytes(std::as_writable_bytes(std::span(stack_)));
  in.get(running_);
  in.get(after_);
  in.get(one_frame_);
  in.get(lives_);
  in.get(score_);
  in.get(step_score_);
  in.get(length_);
  in.get(count);
  finished_.clear();
  for (uint64_t i = 0; i < count; ++i) {
    Episode e;
    in.get(e.raw_return);
    in.get(e.length);
    in.get(e.truncated);
    finished_.push_back(std::move(e));
  }
  in.finish();
}

}  // namespace parl
