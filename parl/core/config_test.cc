#include "parl/core/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "parl/core/error_of.h"
#include "parl/core/files.h"

namespace config_test {
using parl::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

enum class Reduction { kSum, kMean };
PARL_CONFIG_ENUM(Reduction, (kSum, "sum"), (kMean, "mean"));

struct Optimizer {
  double lr = 1e-3;
  float eps = 0.1f;
};
PARL_CONFIG(Optimizer, (lr, "learning rate"), (eps, "added to the root"));

struct Settings {
  Optimizer optimizer;
  Optimizer critic;
  Reduction loss_reduction = Reduction::kSum;
  int actors = 2;
  uint64_t seed = 1;
  int64_t steps = 3'000'000;
  uint8_t small = 0;
  bool deterministic = false;
  std::string env = "atari:pong";
  std::optional<double> target_kl;
  std::vector<int> hidden = {64, 64};
  std::vector<std::string> names;
  std::map<std::string, std::string> env_args;
};
PARL_CONFIG(Settings, (optimizer, ""), (critic, "the critic's"), (loss_reduction, "of the loss"),
            (actors, "remote actors"), (seed, "of everything"), (steps, "in total"), (small, "a byte"),
            (deterministic, "bit-identical"), (env, "environment"), (target_kl, "ends the passes"), (hidden, "layers"),
            (names, "names"), (env_args, "options of the environment"));

TEST(Config, FlagsArePathsWithDashesAndUnnamedStructsLeaveNoPrefix) {
  Settings s;
  std::vector<std::string> flags;
  for (const auto& field : parl::config_fields(s)) flags.push_back(field.flag);
  EXPECT_THAT(flags, ElementsAre("lr", "eps", "critic-lr", "critic-eps", "loss-reduction", "actors", "seed", "steps",
                                 "small", "deterministic", "env", "target-kl", "hidden", "names", "env-args"));
}

TEST(Config, DefaultsAreRead) {
  Settings s;
  auto fields = parl::config_fields(s);
  auto text = [&](const char* name) { return parl::config_text(parl::config_find(fields, name)->get()); };
  EXPECT_EQ(text("lr"), "0.001");
  EXPECT_EQ(text("eps"), "0.1");  // not 0.10000000149
  EXPECT_EQ(text("loss-reduction"), "sum");
  EXPECT_EQ(text("target-kl"), "none");
  EXPECT_EQ(text("hidden"), "64,64");
  EXPECT_EQ(parl::config_find(fields, "loss-reduction")->type, "sum|mean");
  EXPECT_EQ(parl::config_find(fields, "target-kl")->type, "number|none");
}

TEST(Config, TextSetsEveryType) {
  Settings s;
  auto fields = parl::config_fields(s);
  for (auto [name, text] : std::vector<std::pair<const char*, const char*>>{{"lr", "5e-4"},
                                                                            {"critic.lr", "1"},
                                                                            {"loss-reduction", "mean"},
                                                                            {"actors", "-3"},
                                                                            {"seed", "18446744073709551615"},
                                                                            {"steps", "5e6"},
                                                                            {"deterministic", "true"},
                                                                            {"env", "42"},
                                                                            {"target-kl", "0.02"},
                                                                            {"hidden", "1,2,3"},
                                                                            {"names", "1e3,b"},
                                                                            {"env-args", "preset=parl,size=42"}}) {
    parl::config_set(fields, name, text);
  }
  EXPECT_EQ(s.optimizer.lr, 5e-4);
  EXPECT_EQ(s.critic.lr, 1);
  EXPECT_EQ(s.loss_reduction, Reduction::kMean);
  EXPECT_EQ(s.actors, -3);
  EXPECT_EQ(s.seed, UINT64_MAX);
  EXPECT_EQ(s.steps, 5'000'000);
  EXPECT_TRUE(s.deterministic);
  EXPECT_EQ(s.env, "42");
  EXPECT_EQ(s.target_kl, 0.02);
  EXPECT_THAT(s.hidden, ElementsAre(1, 2, 3));
  EXPECT_THAT(s.names, ElementsAre("1e3", "b"));
  EXPECT_EQ(s.env_args.at("preset"), "parl");
  parl::config_set(fields, "target-kl", "none");
  EXPECT_FALSE(s.target_kl);
}

TEST(Config, ErrorsNameFlagWantedAndGot) {
  Settings s;
  auto fields = parl::config_fields(s);
  auto set = [&](const char* name, const char* text) {
    return error_of([&] { parl::config_set(fields, name, text); });
  };
  EXPECT_EQ(set("lr", "abc"), "--lr wants a number, got 'abc'");
  EXPECT_EQ(set("actors", "1.5"), "--actors wants an integer, got 1.5");
  EXPECT_EQ(set("small", "256"), "--small wants an integer in 0 .. 255, got 256");
  EXPECT_EQ(set("seed", "-1"), "--seed wants an integer in 0 .. 9223372036854775807, got -1");
  EXPECT_EQ(set("deterministic", "yes"), "--deterministic wants true or false, got 'yes'");
  EXPECT_EQ(set("loss-reduction", "men"), "--loss-reduction wants one of sum, mean, got 'men', did you mean 'mean'?");
  EXPECT_EQ(set("env-args", "preset"), "--env-args wants key=value, got 'preset'");
  EXPECT_EQ(set("hidden", "1,x"), "--hidden wants an integer, got 'x'");
  EXPECT_THAT(set("determinstic", "true"), HasSubstr("unknown option '--determinstic', did you mean 'deterministic'"));
  EXPECT_EQ(s.actors, 2);
}

TEST(Config, CommasWithinBracketsDoNotSplitAMap) {
  Settings s;
  parl::config_set(parl::config_fields(s), "env-args", R"(size=[3,4],kwargs={"a": 1, "b": [2, 3]},g=9)");
  EXPECT_EQ(s.env_args, (std::map<std::string, std::string>{
                            {"size", "[3,4]"}, {"kwargs", R"({"a": 1, "b": [2, 3]})"}, {"g", "9"}}));
}

TEST(Config, JsonRoundTripIsExactAndNested) {
  Settings a;
  a.optimizer.lr = 0.1 + 0.2;
  a.critic.eps = 1e-30f;
  a.seed = UINT64_MAX;
  a.target_kl = std::numeric_limits<double>::infinity();
  a.names = {"x,y", "\"q\""};
  a.env_args = {{"preset", "v5"}};
  const std::string json = parl::config_to_json(a);
  EXPECT_THAT(json, HasSubstr("\"optimizer\": {\n    \"lr\": 0.30000000000000004"));
  Settings b;
  auto fields = parl::config_fields(b);
  parl::config_from_json(fields, json, "test");
  EXPECT_EQ(parl::config_to_json(b), json);
  EXPECT_EQ(b.optimizer.lr, 0.1 + 0.2);
  EXPECT_EQ(b.critic.eps, 1e-30f);
  EXPECT_EQ(b.seed, UINT64_MAX);
  EXPECT_EQ(b.names, a.names);
}

TEST(Config, AFileSetsOnlyWhatItHas) {
  Settings s;
  auto fields = parl::config_fields(s);
  parl::config_from_json(fields, "{\"optimizer\": {\"lr\": 1}, /* why */ \"actors\": 4}", "f");
  EXPECT_EQ(s.optimizer.lr, 1);
  EXPECT_EQ(s.actors, 4);
  EXPECT_EQ(s.optimizer.eps, 0.1f);
}

TEST(Config, FilesErrorsNameTheFileAndTheNearestKey) {
  Settings s;
  auto fields = parl::config_fields(s);
  auto load = [&](const char* json) { return error_of([&] { parl::config_from_json(fields, json, "my.json"); }); };
  EXPECT_EQ(load(R"({"actor": 3})"), "my.json: unknown key \"actor\", did you mean 'actors'?");
  EXPECT_EQ(load(R"({"optimizer": {"lrr": 3}})"),
            "my.json: unknown key \"optimizer.lrr\", did you mean 'optimizer.lr' or 'optimizer.eps'?");
  EXPECT_EQ(load(R"({"optimizer": 3})"), "my.json: \"optimizer\" wants an object {...}, got 3");
  EXPECT_EQ(load(R"({"actors": "three"})"), "my.json: \"actors\" wants an integer, got 'three'");
  EXPECT_THAT(load("{,}"), HasSubstr("my.json is not valid JSON"));
  EXPECT_THAT(load("[1]"), HasSubstr("my.json: a configuration is a JSON object"));
}

TEST(Config, SavedAndLoaded) {
  const std::string path = testing::TempDir() + "parl_config_test.json";
  Settings a, b;
  a.actors = 7;
  parl::config_save(parl::config_fields(a), path);
  parl::config_load(parl::config_fields(b), path);
  EXPECT_EQ(b.actors, 7);
  EXPECT_THAT(parl::config_differences(parl::config_fields(a), parl::config_fields(b)), ElementsAre());
  b.optimizer.lr = 2;
  EXPECT_THAT(parl::config_differences(parl::config_fields(a), parl::config_fields(b)),
              ElementsAre("optimizer.lr: 0.001 -> 2"));
  std::filesystem::remove(path);
}

struct Clash {
  Optimizer a, b;
};
PARL_CONFIG(Clash, (a, ""), (b, ""));

TEST(Config, TwoFieldsOfOneFlagAreRefused) {
  Clash clash;
  EXPECT_THAT(error_of([&] { parl::config_fields(clash); }), HasSubstr("a.lr and b.lr would share the flag --lr"));
}
}  // namespace config_test
