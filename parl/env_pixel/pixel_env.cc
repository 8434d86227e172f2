#include "parl/env_pixel/pixel_env.h"

#include "parl/env/state_io.h"
#include "parl/env_pixel/internal/picture.h"

namespace parl {
namespace {

constexpr int kPixelsPerCell = 32;

std::string move_names(const std::vector<PixelMove>& moves) {
  std::string names;
  for (const PixelMove move : moves) names += (names.empty() ? "" : ", ") + std::string(pixel_move_name(move));
  return names;
}

std::string view_note(const PixelGameInfo& info, int render) {
  if (render > 0) return fmt::format("{0}x{0}x1 grey", render);
  std::string names;
  for (const PixelChannel& channel : info.channels) names += (names.empty() ? "" : ", ") + std::string(channel.name);
  return fmt::format("{}x{}x{} planes of 0 and 255 ({})", info.height, info.width, info.channels.size(), names);
}

}  // namespace

const char* pixel_move_name(PixelMove move) {
  constexpr std::array<const char*, kPixelMoves> kNames{"none", "left", "up", "right", "down", "fire"};
  return kNames.at(static_cast<size_t>(move));
}

PixelBoard::PixelBoard(const PixelGameInfo& info, std::span<std::byte> planes)
    : height_(info.height), width_(info.width), channels_(static_cast<int>(info.channels.size())), planes_(planes) {
  PARL_CHECK_EQ(planes.size(), static_cast<size_t>(height_ * width_ * channels_), "the planes of '{}' have this size",
                info.name);
  std::memset(planes.data(), 0, planes.size());
}

PixelEnv::PixelEnv(std::unique_ptr<PixelGame> game, PixelOptions options, const std::string& ramp_note)
    : game_(std::move(game)), options_(options) {
  PARL_CHECK(game_ != nullptr, "a PixelEnv needs a game");
  const PixelGameInfo& info = game_->info();
  PARL_CHECK(options.sticky >= 0 && options.sticky < 1,
             "option sticky is a probability from 0 up to, not with, 1; not {}", options.sticky);
  PARL_CHECK(options.render == 0 || (options.render >= std::max(info.height, info.width) && options.render <= 512),
             "option render is 0 (planes) or the size of a grey picture in pixels, {}..512; not {}",
             std::max(info.height, info.width), options.render);
  moves_ = info.moves;
  greys_ = internal::grey_levels(info);
  if (options.all_actions) {
    moves_.clear();
    for (int i = 0; i < kPixelMoves; ++i) moves_.push_back(static_cast<PixelMove>(i));
  }
  const auto channels = static_cast<int64_t>(info.channels.size());
  spec_.id = "pixel:" + std::string(info.name);
  spec_.observation = Box{DType::kU8, {info.height, info.width, channels}, {0}, {255}};
  planes_.resize(spec_.observation.bytes());
  if (options.render > 0) spec_.observation.shape = {options.render, options.render, 1};
  obs_bytes_ = spec_.observation.bytes();
  spec_.action = Discrete{static_cast<int64_t>(moves_.size())};
  spec_.contract = fmt::format("{}: {}, {} actions ({}), sticky {}{}", spec_.id, view_note(info, options.render),
                               moves_.size(), move_names(moves_), options.sticky, ramp_note);
}

void PixelEnv::reset(std::optional<uint64_t> seed, std::span<std::byte> obs) {
  PARL_CHECK_EQ(obs.size(), obs_bytes_, "'{}' writes observations of this size", spec_.id);
  if (seed) rng_ = CounterRng(*seed, 0);
  game_->start(rng_);
  last_ = PixelMove::kNone;
  running_ = true;
  observe(obs);
}

StepResult PixelEnv::step(const Action& action, std::span<std::byte> obs) {
  PARL_CHECK(running_, "'{}': step() after the end of an episode or before the first reset(); call reset()", spec_.id);
  PARL_CHECK_EQ(obs.size(), obs_bytes_, "'{}' writes observations of this size", spec_.id);
  PARL_CHECK(action.index >= 0 && action.index < static_cast<int64_t>(moves_.size()),
             "'{}' has the actions 0..{}, not {}", spec_.id, moves_.size() - 1, action.index);
  const bool repeats = options_.sticky > 0 && rng_.uniform() < options_.sticky;
  if (!repeats) last_ = moves_[static_cast<size_t>(action.index)];
  const PixelOutcome outcome = game_->advance(last_, rng_);
  running_ = !outcome.terminated;
  observe(obs);
  StepResult result;
  result.reward = outcome.reward;
  result.terminated = outcome.terminated;
  return result;
}

void PixelEnv::observe(std::span<std::byte> obs) {
  const PixelGameInfo& info = game_->info();
  if (options_.render == 0) {
    PixelBoard board(info, obs);
    game_->draw(board);
    return;
  }
  PixelBoard board(info, planes_);
  game_->draw(board);
  internal::find_top_channels(info, planes_, top_);
  internal::draw_grey(info, top_, greys_, options_.render, obs);
}

void PixelEnv::render(Image& out) {
  const PixelGameInfo& info = game_->info();
  PixelBoard board(info, planes_);
  game_->draw(board);
  internal::find_top_channels(info, planes_, top_);
  internal::draw_rgb(info, top_, kPixelsPerCell, out);
}

std::vector<std::byte> PixelEnv::save_state() const {
  StateWriter out;
  out.put_bytes(std::as_bytes(std::span(spec_.id)));
  out.put_bytes(game_->state_bytes());
  out.put(rng_);
  out.put(last_);
  out.put(running_);
  return out.take();
}

void PixelEnv::load_state(std::span<const std::byte> state) {
  StateReader in(state);
  const auto id = in.block();
  const std::string_view name(reinterpret_cast<const char*>(id.data()), id.size());
  PARL_CHECK_EQ(name, std::string_view(spec_.id), "this state belongs to another game");
  const auto game = in.block();
  CounterRng rng(0, 0);
  uint8_t last = 0, running = 0;
  in.get(rng);
  in.get(last);
  in.get(running);
  in.finish();
  PARL_CHECK(last < kPixelMoves && running <= 1, "this state of '{}' is damaged", spec_.id);
  game_->set_state_bytes(game);
  rng_ = rng;
  last_ = static_cast<PixelMove>(last);
  running_ = running == 1;
}

}  // namespace parl
