// What all games share: the contract of environments, options and their errors, sticky actions, pictures, states.
#include "parl/env_pixel/pixel_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "parl/core/error_of.h"
#include "parl/env/allocation_counter.h"
#include "parl/env/env_conformance.h"
#include "parl/env_pixel/breakout.h"
#include "parl/env_pixel/catch.h"
#include "parl/env_pixel/internal/picture.h"
#include "parl/env_pixel/pixel.h"

namespace parl {
namespace {

using testing::HasSubstr;

EnvRegistry registry() {
  EnvRegistry out;
  register_pixel_envs(out);
  return out;
}

std::unique_ptr<Env> make(const std::string& game, EnvArgs args = {}) {
  return registry().make({.id = "pixel:" + game, .args = std::move(args)});
}

class PixelGames : public testing::TestWithParam<std::string> {};

TEST_P(PixelGames, KeepTheContract) {
  const EnvArgs cases[] = {{},
                           {{"sticky", "0.25"}, {"ramp", "false"}, {"actions", "all"}},
                           {{"max_episode_steps", "7"}},
                           {{"render", "84"}, {"stack", "2"}, {"max_episode_steps", "60"}}};
  for (const EnvArgs& args : cases) {
    // Freeway's only end is its limit.
    const bool ends = GetParam() != "freeway" || args.count("max_episode_steps") > 0;
    const int steps = args.count("render") ? 300 : 1500;
    check_env([&] { return make(GetParam(), args); },
              {.steps = steps, .allocations = allocations_of_this_thread, .ends = ends});
  }
}

TEST_P(PixelGames, HaveTheDocumentedSpaces) {
  const std::map<std::string, std::pair<std::vector<int64_t>, int64_t>> expected = {
      {"catch", {{10, 5, 1}, 3}},    {"asterix", {{10, 10, 4}, 5}},   {"breakout", {{10, 10, 4}, 3}},
      {"freeway", {{10, 10, 7}, 3}}, {"seaquest", {{10, 10, 10}, 6}}, {"space_invaders", {{10, 10, 6}, 4}}};
  const auto& [shape, actions] = expected.at(GetParam());
  const auto env = make(GetParam());
  EXPECT_EQ(env->spec().observation, (Box{DType::kU8, shape, {0}, {255}}));
  EXPECT_EQ(env->spec().action, Space(Discrete{actions}));
  EXPECT_EQ(make(GetParam(), {{"actions", "all"}})->spec().action, Space(Discrete{6}));
  EXPECT_EQ(make(GetParam(), {{"render", "84"}, {"stack", "4"}})->spec().observation,
            (Box{DType::kU8, {84, 84, 4}, {0}, {255}}));
  EXPECT_THAT(env->spec().contract, HasSubstr("pixel:" + GetParam()));
}

TEST_P(PixelGames, ShowEveryChannelApartFromTheOthers) {
  const PixelGameInfo& info = make_pixel_game(GetParam())->info();
  const std::vector<uint8_t> greys = internal::grey_levels(info);
  std::set<uint8_t> levels(greys.begin(), greys.end());
  EXPECT_EQ(levels.size(), info.channels.size() + 1) << "and from an empty cell";
  for (auto a = levels.begin(), b = std::next(a); b != levels.end(); ++a, ++b) EXPECT_GE(*b - *a, 15);
  std::set<std::array<uint8_t, 3>> colours{{0, 0, 0}};
  for (const PixelChannel& channel : info.channels) colours.insert(channel.rgb);
  EXPECT_EQ(colours.size(), info.channels.size() + 1);
}

TEST_P(PixelGames, RefuseStatesOfOthersAndDamagedOnes) {
  const auto bare = [](const std::string& name) { return PixelEnv(make_pixel_game(name), {}); };
  PixelEnv env = bare(GetParam()), other = bare(GetParam() == "catch" ? "breakout" : "catch");
  std::vector<std::byte> obs(env.spec().observation.bytes()), other_obs(other.spec().observation.bytes());
  env.reset(1, obs);
  other.reset(1, other_obs);
  EXPECT_THAT(error_of([&] { env.load_state(other.save_state()); }), HasSubstr("another game"));
  const auto state = env.save_state();
  const auto before = env.game().state_bytes();
  const std::vector<std::byte> kept(before.begin(), before.end());
  std::vector<std::byte> damaged(kept.size(), std::byte{0x7F});
  EXPECT_THAT(error_of([&] { env.game().set_state_bytes(damaged); }), HasSubstr("damaged"));
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), env.game().state_bytes().begin())) << "the state there was";
}

INSTANTIATE_TEST_SUITE_P(All, PixelGames, testing::ValuesIn(pixel_games()),
                         [](const auto& info) { return info.param; });

TEST(Pixel, NamesAndOptionsHaveNearOnes) {
  EXPECT_THAT(registry().names(), testing::ElementsAre("pixel:catch", "pixel:asterix", "pixel:breakout",
                                                       "pixel:freeway", "pixel:seaquest", "pixel:space_invaders"));
  EXPECT_THAT(error_of([] { make("breakuot"); }), HasSubstr("did you mean 'pixel:breakout'"));
  EXPECT_THAT(error_of([] { make_pixel_game("catsh"); }), HasSubstr("did you mean 'catch'"));
  EXPECT_THAT(error_of([] { make("catch", {{"stiky", "0"}}); }), HasSubstr("did you mean 'sticky'"));
  const std::pair<EnvArgs, const char*> cases[] = {{{{"sticky", "1"}}, "probability from 0"},
                                                   {{{"sticky", "-0.1"}}, "probability from 0"},
                                                   {{{"actions", "al"}}, "did you mean 'all'"},
                                                   {{{"render", "9"}}, "10..512"},
                                                   {{{"render", "4294967380"}}, "10..512"},
                                                   {{{"ramp", "yes"}}, "true or false"},
                                                   {{{"stack", "0"}}, "1..16"},
                                                   {{{"max_episode_steps", "-1"}}, "max_episode_steps"}};
  for (const auto& [args, expected] : cases) {
    EXPECT_THAT(error_of([&args = args] { make("breakout", args); }), HasSubstr(expected));
  }
}

TEST(Pixel, TheContractNamesWhatChangesResults) {
  EXPECT_THAT(make("asterix")->spec().contract, HasSubstr("sticky 0.1, grows harder, truncated after 10000 steps"));
  EXPECT_THAT(make("asterix", {{"ramp", "false"}})->spec().contract, HasSubstr("difficulty constant"));
  EXPECT_EQ(make("catch")->spec().contract,
            "pixel:catch: 10x5x1 planes of 0 and 255 (ball_and_paddle), 3 actions (none, left, right), sticky 0");
  EXPECT_THAT(make("freeway", {{"render", "84"}})->spec().contract,
              HasSubstr("84x84x1 grey, 3 actions (none, up, down)"));
}

TEST(Pixel, FreewayIsTruncatedAfter2500Steps) {
  const auto env = make("freeway");
  std::vector<std::byte> obs(env->spec().observation.bytes());
  env->reset(1, obs);
  StepResult result;
  int64_t steps = 0;
  for (; !result.done(); ++steps) result = env->step(Action::discrete(1), obs);
  EXPECT_EQ(steps, 2500);
  EXPECT_TRUE(result.truncated);
  EXPECT_FALSE(result.terminated);
  std::vector<Episode> episodes;
  env->take_episodes(episodes);
  ASSERT_EQ(episodes.size(), 1u);
  EXPECT_GT(episodes[0].raw_return, 5) << "always up gets there now and then";
}

// The paddle goes right in the steps that obey; the others repeat the move before.
TEST(Pixel, StickyRepeatsTheMoveBefore) {
  for (const double sticky : {0.0, 0.3}) {
    PixelEnv env(std::make_unique<BreakoutGame>(), {.sticky = sticky});
    auto& game = static_cast<BreakoutGame&>(env.game());
    std::vector<std::byte> obs(env.spec().observation.bytes());
    env.reset(11, obs);
    int repeated = 0, last = 0;
    constexpr int kSteps = 4000;
    for (int i = 0; i < kSteps; ++i) {
      BreakoutState s = game.state();  // never lands
      s.ball_x = 5, s.ball_y = 6, s.dy = -1, s.paddle = 4;
      game.set_state(s);
      const int wanted = i % 2 == 0 ? 1 : -1;
      env.step(Action::discrete(wanted == 1 ? 2 : 1), obs);
      const int moved = game.state().paddle - 4;
      EXPECT_TRUE(moved == wanted || moved == last) << "either the new move or the one made before";
      repeated += moved != wanted;
      last = moved;
    }
    // r = p (1 - r): a repeated move is the wanted one where the step before was a repeated one itself.
    EXPECT_NEAR(repeated, kSteps * sticky / (1 + sticky), 120) << sticky;
  }
}

TEST(Pixel, TheFirstStepRepeatsNone) {
  PixelEnv env(std::make_unique<BreakoutGame>(), {.sticky = 0.9});
  std::vector<std::byte> obs(env.spec().observation.bytes());
  int idle = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    env.reset(seed, obs);
    env.step(Action::discrete(2), obs);  // in the episode before, the last move was "right"
    idle += static_cast<BreakoutGame&>(env.game()).state().paddle == 4;
  }
  EXPECT_NEAR(idle, 180, 15);
}

TEST(Pixel, AllActionsHaveOneOrder) {
  PixelEnv env(std::make_unique<CatchGame>(), {.all_actions = true});
  auto& game = static_cast<CatchGame&>(env.game());
  std::vector<std::byte> obs(env.spec().observation.bytes());
  env.reset(0, obs);
  const int moved[] = {0, -1, 0, 1, 0, 0};  // none, left, up, right, down, fire
  for (int action = 0; action < 6; ++action) {
    game.set_state({0, 0, 2});
    env.step(Action::discrete(action), obs);
    EXPECT_EQ(game.state().paddle, 2 + moved[action]) << action;
  }
}

BreakoutState scene() {  // ball over trail over brick in one place, so that the order shows
  BreakoutState s;
  s.ball_x = 3, s.ball_y = 1;
  s.trail_x = 4, s.trail_y = 1;
  s.paddle = 9;
  s.bricks = {0b0000011000, 0, 0};  // columns 3 and 4 of row 1
  return s;
}

TEST(Pixel, TheGreyPictureShowsTheFrontmostChannelOfEveryCell) {
  PixelEnv env(std::make_unique<BreakoutGame>(), {.render = 84});
  std::vector<std::byte> obs(84 * 84);
  env.reset(0, obs);
  BreakoutState before = scene();  // the ball flies from 4,0 to 3,1, through the brick there
  before.ball_x = 4, before.ball_y = 0, before.dx = -1, before.dy = 1, before.in_bricks = 1;
  static_cast<BreakoutGame&>(env.game()).set_state(before);
  env.step(Action::discrete(0), obs);
  const std::vector<uint8_t> greys = internal::grey_levels(env.game().info());
  const auto level = [&](int x, int y) { return std::to_integer<int>(obs[static_cast<size_t>(y * 84 + x)]); };
  // Cell x begins at pixel 84 x / 10: 25 for cell 3, 33 for 4, 42 for 5, 75 for 9; row 1 is 8..15, row 9 is 75..83.
  const auto expect_cell = [&](int left, int right, int top, int bottom, int expected) {
    for (int y : {top, bottom}) {
      for (int x : {left, right}) EXPECT_EQ(level(x, y), expected) << x << "," << y;
    }
  };
  expect_cell(25, 32, 8, 15, greys[1 + BreakoutGame::kBall]);
  expect_cell(33, 41, 8, 15, greys[1 + BreakoutGame::kBrick]);
  expect_cell(33, 41, 0, 7, greys[1 + BreakoutGame::kTrail]);
  expect_cell(75, 83, 75, 83, greys[1 + BreakoutGame::kPaddle]);
  expect_cell(0, 24, 16, 74, 0);
}

TEST(Pixel, PicturesForPeopleAreColoured) {
  PixelEnv env(std::make_unique<BreakoutGame>(), {});
  static_cast<BreakoutGame&>(env.game()).set_state(scene());
  Image image;
  env.render(image);
  ASSERT_EQ(image.width, 320);
  ASSERT_EQ(image.height, 320);
  ASSERT_EQ(image.rgb.size(), 320u * 320u * 3u);
  const auto& channels = env.game().info().channels;
  const auto colour = [&](int x, int y) {
    const uint8_t* p = &image.rgb[static_cast<size_t>(y * 320 + x) * 3];
    return std::array<uint8_t, 3>{p[0], p[1], p[2]};
  };
  EXPECT_EQ(colour(3 * 32, 32), channels[BreakoutGame::kBall].rgb);
  EXPECT_EQ(colour(4 * 32 + 31, 63), channels[BreakoutGame::kBrick].rgb) << "the trail lies behind";
  EXPECT_EQ(colour(319, 319), channels[BreakoutGame::kPaddle].rgb);
  EXPECT_EQ(colour(0, 0), (std::array<uint8_t, 3>{0, 0, 0}));
  make("catch")->render(image);
  EXPECT_EQ(image.width, 160);
  EXPECT_EQ(image.height, 320);
}

}  // namespace
}  // namespace parl
