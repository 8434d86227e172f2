#include "parl/env_atari/emulator.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>

#include "ale/ale_interface.hpp"
#include "ale/common/ColourPalette.hpp"
#include "ale/emucore/Console.hxx"
#include "ale/emucore/MD5.hxx"
#include "ale/emucore/MediaSrc.hxx"
#include "ale/games/RomSettings.hpp"
#include "parl/env_atari/internal/hidden_state.h"

namespace parl {

struct Emulator::Console {
  mutable ale::ALEInterface ale;
  ale::stella::MediaSource* screen = nullptr;
};

namespace {

constexpr size_t kFrameBytes = 160 * 300;  // of the buffers that the console draws into, whatever the game shows

// What ALEInterface::isSupportedROM() says, without its leak. An unknown ROM would make loadROM() end the process.
bool known_to_ale(const std::string& rom) {
  std::ifstream file(rom, std::ios::binary);
  const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string md5 = ale::stella::MD5(bytes.data(), static_cast<uint32_t>(bytes.size()));
  const std::unique_ptr<ale::RomSettings> settings(ale::buildRomRLWrapper(rom, md5));
  return settings && settings->md5() == md5;
}

template <typename Values>
void check_one_of(const char* what, int value, const Values& available) {
  std::vector<int> numbers(available.begin(), available.end());
  if (std::find(numbers.begin(), numbers.end(), value) == numbers.end()) {
    raise("this game has no {} {}; it has: {}", what, value, fmt::join(numbers, ", "));
  }
}

}  // namespace

Emulator::Emulator(const Settings& settings) : sticky_(static_cast<float>(settings.sticky)) {
  static std::once_flag quiet;
  std::call_once(quiet, [] { ale::Logger::setMode(ale::Logger::Error); });
  if (!known_to_ale(settings.rom)) {
    raise("{} is not a ROM that the ALE knows (it knows ROMs by their MD5 sum); run `make setup` for the right ones",
          settings.rom);
  }
  console_ = std::make_unique<Console>();
  auto& ale = console_->ale;
  ale.setInt("random_seed", 0);  // never left to the clock; the generator that counts is random_
  ale.setFloat("repeat_action_probability", 0.0F);
  ale.setInt("max_num_frames_per_episode", settings.max_frames);
  ale.setInt("frame_skip", 1);
  ale.setBool("color_averaging", false);
  ale.loadROM(settings.rom);
  if (settings.mode >= 0 || settings.difficulty >= 0) {
    if (settings.mode >= 0) {
      check_one_of("mode", settings.mode, ale.getAvailableModes());
      ale.setMode(static_cast<ale::game_mode_t>(settings.mode));
    }
    if (settings.difficulty >= 0) {
      check_one_of("difficulty", settings.difficulty, ale.getAvailableDifficulties());
      ale.setDifficulty(static_cast<ale::difficulty_t>(settings.difficulty));
    }
    ale.reset_game();
  }
  for (const ale::Action action : settings.all_actions ? ale.getLegalActionSet() : ale.getMinimalActionSet()) {
    actions_.push_back(static_cast<int>(action));
  }
  console_->screen = &ale.theOSystem->console().mediaSource();
  height_ = static_cast<int>(ale.getScreen().height());
  width_ = static_cast<int>(ale.getScreen().width());
  std::array<uint8_t, 256> indices{};
  for (int i = 0; i < 256; i += 2) indices[i] = static_cast<uint8_t>(i);  // the palette has even indices only
  ale.theOSystem->colourPalette().applyPaletteGrayscale(grey_table_.data(), indices.data(), indices.size());
  for (int i = 1; i < 256; i += 2) grey_table_[i] = grey_table_[i - 1];
  random_.seed(0);
  StateWriter state;
  save_console(state);
  switched_on_ = state.take();
}

Emulator::~Emulator() = default;

void Emulator::load(uint32_t seed) {
  StateReader state(switched_on_);
  load_console(state);
  random_.seed(seed);
  last_action_ = ale::PLAYER_A_NOOP;
}

void Emulator::restart() {
  console_->ale.reset_game();
  last_action_ = ale::PLAYER_A_NOOP;
}

int Emulator::play(int action) {
  const auto draw = [this] { return random_() / 4294967296.0; };
  if (draw() >= sticky_) last_action_ = actions_[action];
  draw();  // the second player's
  return console_->ale.act(static_cast<ale::Action>(last_action_));
}

bool Emulator::game_over() const { return console_->ale.game_over(false); }
bool Emulator::capped() const { return console_->ale.game_truncated(); }
int Emulator::lives() const { return console_->ale.lives(); }
const uint8_t* Emulator::frame() const { return console_->screen->currentFrameBuffer(); }
const uint8_t* Emulator::previous_frame() const { return console_->screen->previousFrameBuffer(); }

void Emulator::picture(Image& out) const {
  out.width = width_;
  out.height = height_;
  out.rgb.resize(static_cast<size_t>(width_) * height_ * 3);
  console_->ale.theOSystem->colourPalette().applyPaletteRGB(out.rgb.data(), console_->screen->currentFrameBuffer(),
                                                            static_cast<size_t>(width_) * height_);
}

void Emulator::save_console(StateWriter& out) const {
  const std::string console = console_->ale.cloneState(true).serialize();
  out.put_bytes(std::as_bytes(std::span(console)));
  out.put(internal::read_hidden_state(console_->ale));
  out.put_bytes(std::as_bytes(std::span(frame(), kFrameBytes)));
  out.put_bytes(std::as_bytes(std::span(previous_frame(), kFrameBytes)));
}

void Emulator::load_console(StateReader& in) {
  const auto console = in.block();
  try {
    console_->ale.restoreState(
        ale::ALEState(std::string(reinterpret_cast<const char*>(console.data()), console.size())));
  } catch (const char* what) {  // the ALE throws bare strings
    raise("the console's state cannot be restored: {}", what);
  }
  internal::HiddenState hidden;
  in.get(hidden);
  internal::write_hidden_state(console_->ale, hidden);
  in.get_bytes(std::as_writable_bytes(std::span(console_->screen->currentFrameBuffer(), kFrameBytes)));
  in.get_bytes(std::as_writable_bytes(std::span(console_->screen->previousFrameBuffer(), kFrameBytes)));
}

void Emulator::save(StateWriter& out) const {
  save_console(out);
  std::ostringstream generator;
  generator << random_;
  const std::string text = generator.str();
  out.put_bytes(std::as_bytes(std::span(text)));
  out.put(last_action_);
}

void Emulator::load_state(StateReader& in) {
  load_console(in);
  const auto text = in.block();
  std::istringstream generator(std::string(reinterpret_cast<const char*>(text.data()), text.size()));
  generator >> random_;
  in.get(last_action_);
}

}  // namespace parl
