#include "parl/env_atari/atari.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "parl/env_atari/atari_env.h"
#include "parl/env_atari/atari_options.h"

namespace parl {
namespace {

constexpr const char* kFamily = "atari";

std::string rom_directory() {
  const char* named = std::getenv("PARL_ROMS");
  return named && *named ? named : PARL_ATARI_ROMS;
}

}  // namespace

const std::vector<std::string>& atari_games() {
  static const std::vector<std::string> games{"adventure",
                                              "air_raid",
                                              "alien",
                                              "amidar",
                                              "assault",
                                              "asterix",
                                              "asteroids",
                                              "atlantis",
                                              "atlantis2",
                                              "backgammon",
                                              "bank_heist",
                                              "basic_math",
                                              "battle_zone",
                                              "beam_rider",
                                              "berzerk",
                                              "blackjack",
                                              "bowling",
                                              "boxing",
                                              "breakout",
                                              "carnival",
                                              "casino",
                                              "centipede",
                                              "chopper_command",
                                              "crazy_climber",
                                              "crossbow",
                                              "darkchambers",
                                              "defender",
                                              "demon_attack",
                                              "donkey_kong",
                                              "double_dunk",
                                              "earthworld",
                                              "elevator_action",
                                              "enduro",
                                              "entombed",
                                              "et",
                                              "fishing_derby",
                                              "flag_capture",
                                              "freeway",
                                              "frogger",
                                              "frostbite",
                                              "galaxian",
                                              "gopher",
                                              "gravitar",
                                              "hangman",
                                              "haunted_house",
                                              "hero",
                                              "human_cannonball",
                                              "ice_hockey",
                                              "jamesbond",
                                              "journey_escape",
                                              "kaboom",
                                              "kangaroo",
                                              "keystone_kapers",
                                              "king_kong",
                                              "klax",
                                              "koolaid",
                                              "krull",
                                              "kung_fu_master",
                                              "laser_gates",
                                              "lost_luggage",
                                              "mario_bros",
                                              "miniature_golf",
                                              "montezuma_revenge",
                                              "mr_do",
                                              "ms_pacman",
                                              "name_this_game",
                                              "othello",
                                              "pacman",
                                              "phoenix",
                                              "pitfall",
                                              "pitfall2",
                                              "pong",
                                              "pooyan",
                                              "private_eye",
                                              "qbert",
                                              "riverraid",
                                              "road_runner",
                                              "robotank",
                                              "seaquest",
                                              "sir_lancelot",
                                              "skiing",
                                              "solaris",
                                              "space_invaders",
                                              "space_war",
                                              "star_gunner",
                                              "superman",
                                              "surround",
                                              "tennis",
                                              "tetris",
                                              "tic_tac_toe_3d",
                                              "time_pilot",
                                              "trondead",
                                              "turmoil",
                                              "tutankham",
                                              "up_n_down",
                                              "venture",
                                              "video_checkers",
                                              "video_chess",
                                              "video_cube",
                                              "video_pinball",
                                              "wizard_of_wor",
                                              "word_zapper",
                                              "yars_revenge",
                                              "zaxxon"};
  return games;
}

std::string atari_rom(const std::string& game) {
  const auto& games = atari_games();
  if (std::find(games.begin(), games.end(), game) == games.end()) {
    raise("there is no Atari game '{}'{}; `parl list envs` shows all", game, did_you_mean(game, games));
  }
  const std::string directory = rom_directory();
  if (directory.empty()) {
    raise(
        "no directory with Atari ROMs is known: run `make setup`, or name one with the environment variable PARL_ROMS");
  }
  const std::filesystem::path file = std::filesystem::path(directory) / (game + ".bin");
  std::error_code ignored;
  if (std::filesystem::is_regular_file(file, ignored)) return file.string();

  std::vector<std::string> there;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    if (entry.path().extension() == ".bin") there.push_back(entry.path().stem().string());
  }
  std::sort(there.begin(), there.end());
  raise(
      "the ROM of '{}' is missing: there is no file {}{}. Run `make setup`, or set PARL_ROMS to a directory that has "
      "it",
      game, file.string(), did_you_mean(game, there));
}

void register_atari_envs(EnvRegistry& registry) {
  EnvFamily family;
  family.prefix = kFamily;
  family.summary = "Atari 2600 games (Arcade Learning Environment); presets deepmind, parl, v5, machado";
  family.names = [] {
    std::vector<std::string> ids;
    for (const std::string& game : atari_games()) ids.push_back(std::string(kFamily) + ":" + game);
    return ids;
  };
  family.options = atari_option_list();
  family.make = [](const EnvRequest& request) -> std::unique_ptr<Env> {
    const std::string game = request.id.substr(request.id.find(':') + 1);
    return std::make_unique<AtariEnv>(game, parse_atari_options(request.args, request.mode));
  };
  registry.add(std::move(family));
}

}  // namespace parl
