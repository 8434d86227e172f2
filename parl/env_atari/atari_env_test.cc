#include "parl/env_atari/atari_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "parl/core/error_of.h"
#include "parl/env/allocation_counter.h"
#include "parl/env/env_conformance.h"
#include "parl/env_atari/atari.h"

namespace parl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

AtariOptions options(EnvArgs args, EnvMode mode = EnvMode::kTraining) { return parse_atari_options(args, mode); }

struct Player {  // an environment with its observation and a fixed stream of random actions
  AtariEnv env;
  std::vector<std::byte> obs;
  CounterRng random{5, 0};
  explicit Player(const std::string& game, EnvArgs args = {}, EnvMode mode = EnvMode::kTraining)
      : env(game, options(std::move(args), mode)), obs(env.spec().observation.bytes()) {}
  void reset(std::optional<uint64_t> seed = {}) { env.reset(seed, obs); }
  StepResult step(int64_t action) { return env.step(Action::discrete(action), obs); }
  StepResult random_step() { return step(random.below(std::get<Discrete>(env.spec().action).n)); }
  uint8_t pixel(size_t position, int channel) const { return static_cast<uint8_t>(obs[position * 4 + channel]); }
};

TEST(AtariEnv, KeepsTheContract) {
  const std::pair<const char*, EnvArgs> cases[] = {
      {"pong", {{"preset", "parl"}, {"max_frames", "700"}}},
      {"breakout", {{"preset", "deepmind"}}},
      {"seaquest", {{"preset", "v5"}, {"max_frames", "400"}}},
      {"qbert", {{"preset", "machado"}, {"size", "42"}, {"max_frames", "400"}}},
      {"space_invaders", {{"stack", "2"}, {"frame_skip", "3"}, {"pool", "last"}, {"max_frames", "300"}}},
  };
  for (const auto& [game, args] : cases) {
    const AtariOptions o = options(args);
    const auto problems =
        conformance_problems([&, name = std::string(game)] { return std::make_unique<AtariEnv>(name, o); },
                             {.steps = 200, .ends = true, .episode_per_end = false, .raw_rewards = false});
    EXPECT_THAT(problems, testing::IsEmpty()) << game;
  }
}

TEST(AtariEnv, StepsAllocateNothing) {
  Player player("breakout");
  player.reset(3);
  for (int i = 0; i < 20; ++i) {
    if (player.random_step().done()) player.reset();
  }
  for (int i = 0; i < 200; ++i) {
    const uint64_t before = allocations_of_this_thread();
    const bool done = player.random_step().done();
    ASSERT_EQ(allocations_of_this_thread(), before);
    if (done) player.reset();
  }
}

// The ALE's own saved state is incomplete for some games; ours must not be. Every game starts, is the same after a
// seeded reset, and goes on the same from a saved state in a fresh environment.
TEST(AtariEnv, EveryGameRepeatsItselfAndItsSavedStates) {
  for (const std::string& game : atari_games()) {
    const EnvArgs args{{"preset", "v5"}, {"size", "42"}, {"frame_skip", "2"}};
    Player a(game, args), b(game, args);
    a.reset(7);
    for (int i = 0; i < 20; ++i) {
      if (a.random_step().done()) a.reset();
    }
    a.reset(7);
    a.random.set_position(0);
    b.reset(7);
    const auto go_on_alike = [&](int steps, const char* when) {
      for (int i = 0; i < steps; ++i) {
        const StepResult x = a.random_step(), y = b.random_step();
        ASSERT_EQ(x.reward, y.reward) << game << " " << when << " step " << i;
        ASSERT_EQ(x.done(), y.done()) << game << " " << when << " step " << i;
        ASSERT_EQ(a.obs, b.obs) << game << " " << when << " step " << i;
        if (x.done()) {
          a.reset();
          b.reset();
        }
      }
    };
    ASSERT_NO_FATAL_FAILURE(go_on_alike(30, "after a seeded reset"));
    for (int i = 0; i < 7; ++i) {  // b is elsewhere, then takes over a's state
      if (b.random_step().done()) b.reset();
    }
    b.env.load_state(a.env.save_state());
    b.random = a.random;
    ASSERT_NO_FATAL_FAILURE(go_on_alike(30, "after loading a state"));
  }
}

TEST(AtariEnv, ErrorsSayWhatIsNear) {
  EnvRegistry registry;
  register_atari_envs(registry);
  EXPECT_THAT(error_of([&] { registry.make({.id = "atari:pnog"}); }), HasSubstr("atari:pong"));
  EXPECT_THAT(error_of([&] { registry.make({.id = "atari:pong", .args = {{"stiky", "0"}}}); }), HasSubstr("sticky"));
  EXPECT_THAT(error_of([] { atari_rom("space_invader"); }), HasSubstr("space_invaders"));
  EXPECT_THAT(error_of([] { options({{"preset", "deepmnd"}}); }), HasSubstr("deepmind"));
  EXPECT_THAT(error_of([] { options({{"size", "400"}}); }), AllOf(HasSubstr("size"), HasSubstr("8..160")));
  EXPECT_THAT(error_of([] { options({{"sticky", "1"}}); }), AllOf(HasSubstr("sticky"), HasSubstr("[0, 1)")));
  EXPECT_THAT(error_of([] { options({{"noops", "9..3"}}); }), HasSubstr("N..M"));
  EXPECT_THAT(error_of([] { options({{"noops", "many"}}); }), HasSubstr("noops"));
  EXPECT_THAT(error_of([] { options({{"life_loss", "ends"}}); }), HasSubstr("end, ignore"));
  EXPECT_THAT(error_of([] { AtariEnv("pong", options({{"mode", "77"}})); }), HasSubstr("no mode 77"));

  setenv("PARL_ROMS", "/nowhere/at/all", 1);
  EXPECT_THAT(error_of([] { AtariEnv("pong", {}); }), AllOf(HasSubstr("pong.bin"), HasSubstr("make setup")));
  unsetenv("PARL_ROMS");
}

TEST(AtariEnv, PresetsAreTheContractTable) {
  const auto line = [](const char* preset, EnvMode mode = EnvMode::kTraining) {
    return AtariEnv("breakout", options({{"preset", preset}}, mode)).spec().contract;
  };
  EXPECT_EQ(
      line("deepmind"),
      "atari:breakout preset deepmind for training: no-ops 1..30 at start, sticky 0 per frame, 4 actions (minimal), "
      "life loss ends, FIRE after reset, 84x84x4 grey, max of 2 frames, area resize, reward sign, frame skip 4, cap "
      "108000 frames = truncated; scores are raw and of full games");
  EXPECT_THAT(line("parl"), AllOf(HasSubstr("42x42x4"), HasSubstr("no-ops 1..30"), HasSubstr("life loss ends"),
                                  HasSubstr("sticky 0 "), HasSubstr(", FIRE"), HasSubstr("reward sign")));
  EXPECT_THAT(line("v5"), AllOf(HasSubstr("no no-ops"), HasSubstr("sticky 0.25"), HasSubstr("4 actions (minimal)"),
                                HasSubstr("life loss ignored"), HasSubstr("no FIRE"), HasSubstr("84x84x4")));
  EXPECT_THAT(line("machado"), AllOf(HasSubstr("no no-ops"), HasSubstr("sticky 0.25"), HasSubstr("18 actions (all)"),
                                     HasSubstr("life loss ignored"), HasSubstr("no FIRE"), HasSubstr("reward sign")));
  EXPECT_THAT(line("deepmind", EnvMode::kEvaluation), AllOf(HasSubstr("reward raw"), HasSubstr("life loss goes on")));
}

TEST(AtariEnv, LostLivesEndEpisodesAndTheGameGoesOn) {
  Player player("breakout");  // five lives; who does not move loses each ball soon
  player.reset(0);
  std::vector<Episode> episodes;
  std::vector<int> lives_after_end;
  int64_t steps = 0;
  while (episodes.empty()) {
    const StepResult r = player.step(steps % 2);  // FIRE serves
    ++steps;
    ASSERT_LT(steps, 5000);
    if (r.done()) {
      EXPECT_TRUE(r.terminated);
      EXPECT_FALSE(r.truncated);
      lives_after_end.push_back(player.env.lives());
      EXPECT_THROW(player.step(0), Error);
      player.env.take_episodes(episodes);
      player.reset();
      for (size_t i = 0; i < player.obs.size() / 4; ++i) {  // the stack is the reset picture only
        ASSERT_EQ(player.pixel(i, 0), player.pixel(i, 3));
        ASSERT_EQ(player.pixel(i, 1), player.pixel(i, 2));
        ASSERT_EQ(player.pixel(i, 0), player.pixel(i, 1));
      }
    }
  }
  EXPECT_EQ(lives_after_end, (std::vector<int>{4, 3, 2, 1, 0}));
  ASSERT_EQ(episodes.size(), 1u);  // one game, not one per life
  EXPECT_EQ(episodes[0].length, steps);
  EXPECT_FALSE(episodes[0].truncated);
  EXPECT_EQ(player.env.lives(), 5);
}

TEST(AtariEnv, EvaluationPlaysFullGamesWithRawRewards) {
  Player player("breakout", {}, EnvMode::kEvaluation);
  player.reset(0);
  double sum = 0;
  int64_t steps = 0, served = 0;
  StepResult r;
  do {
    const int before = player.env.lives();
    r = player.step(2 + (steps / 13) % 2);  // never FIRE: the environment serves after each lost ball
    ++steps;
    sum += r.reward;
    if (player.env.lives() < before && !r.done()) {
      ++served;
      for (size_t i = 0; i < player.obs.size() / 4; ++i) ASSERT_EQ(player.pixel(i, 0), player.pixel(i, 3));
    }
    ASSERT_LT(steps, 20000);
  } while (!r.done());
  EXPECT_TRUE(r.terminated);
  EXPECT_EQ(player.env.lives(), 0);
  EXPECT_EQ(served, 4);
  std::vector<Episode> episodes;
  player.env.take_episodes(episodes);
  ASSERT_EQ(episodes.size(), 1u);
  EXPECT_EQ(episodes[0].raw_return, sum);
  EXPECT_EQ(episodes[0].length, steps);
}

TEST(AtariEnv, TheCapTruncatesTheGame) {
  Player player("pong", {{"max_frames", "403"}, {"noops", "0"}});
  player.reset(1);
  StepResult r;
  int steps = 0;
  do {
    r = player.step(0);
    ++steps;
  } while (!r.done());
  EXPECT_TRUE(r.truncated);
  EXPECT_FALSE(r.terminated);
  EXPECT_EQ(steps, 99);  // FIRE and action 2 took 8 frames: 395 are left, the last step plays 3
  std::vector<Episode> episodes;
  player.env.take_episodes(episodes);
  ASSERT_EQ(episodes.size(), 1u);
  EXPECT_TRUE(episodes[0].truncated);
  player.reset();  // the next game has its own count and score
  EXPECT_FALSE(player.step(0).done());
}

TEST(AtariEnv, NoopsVaryTheStartAndSeedZeroIsASeed) {
  Player noops("pong", {{"fire_reset", "false"}});
  Player sticky("pong", {{"preset", "v5"}, {"size", "42"}});
  const auto after = [](Player& player, uint64_t seed, bool random) {
    player.reset(seed);
    player.random.set_position(0);
    for (int i = 0; i < 40; ++i) random ? player.random_step() : player.step(0);
    return player.obs;
  };
  for (Player* player : {&noops, &sticky}) {
    const bool random = player == &sticky;
    std::set<std::vector<std::byte>> seen;
    for (uint64_t seed = 0; seed < 6; ++seed) seen.insert(after(*player, seed, random));
    EXPECT_GE(seen.size(), 4u);
    EXPECT_EQ(after(*player, 0, random), after(*player, 0, random));
  }
}

TEST(AtariEnv, DrawsTheScreen) {
  Player player("pong");
  player.reset(0);
  Image image;
  player.env.render(image);
  EXPECT_EQ(image.width, 160);
  EXPECT_EQ(image.height, 210);
  ASSERT_EQ(image.rgb.size(), 160u * 210 * 3);
  const uint8_t* middle = &image.rgb[(100 * 160 + 40) * 3];  // the court's brown
  EXPECT_EQ(std::vector<int>(middle, middle + 3), (std::vector<int>{144, 72, 17}));
}

TEST(AtariEnv, AStateOfAnotherEnvironmentIsRefused) {
  Player pong("pong"), breakout("breakout");
  pong.reset(0);
  breakout.reset(0);
  const auto state = pong.env.save_state();
  EXPECT_THAT(error_of([&] { breakout.env.load_state(state); }), HasSubstr("another environment"));
}

}  // namespace
}  // namespace parl
