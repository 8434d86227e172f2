#include "cli/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <limits>

#include "cli/config_flags.h"
#include "cli/env_args.h"

namespace parl::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Parse, UnknownOptionsNameTheNearest) {
  CLI::App app("", "parl train");
  double lr = 0;
  app.add_option("--lr", lr);
  app.add_option("--entropy-cost", lr);
  EXPECT_THAT(
      [&] {
        parse(app, {"--entropy-cots", "0.1"});
      },
      ThrowsMessage<UsageError>(
          "unknown option '--entropy-cots', did you mean '--entropy-cost'? (see: parl train --help)"));
  EXPECT_THAT([&] { parse(app, {"--entropy-cots=0.1"}); },
              ThrowsMessage<UsageError>(HasSubstr("'--entropy-cots', did you mean")));
  EXPECT_THAT([&] { parse(app, {"stray"}); }, ThrowsMessage<UsageError>(HasSubstr("unexpected argument 'stray'")));
  EXPECT_THAT([&] { parse(app, {"--lr", "abc"}); }, ThrowsMessage<UsageError>(HasSubstr("--lr")));
  EXPECT_TRUE(parse(app, {"--lr", "-0.5"}));
  EXPECT_EQ(lr, -0.5);
}

TEST(Parse, SwitchesTakeTrueOrFalseAlone) {
  CLI::App app("", "parl train");
  bool double_q = false, json = false;
  std::string algorithm;
  app.add_option("algorithm", algorithm);
  app.add_flag("--double-q", double_q);
  app.add_flag_function("--no-double-q", [&](int64_t) { double_q = false; });
  app.add_flag("--json", json);
  for (const char* wrong : {"foo", "2", ""}) {
    EXPECT_THAT([&] { parse(app, {std::string("--double-q=") + wrong}); },
                ThrowsMessage<UsageError>(std::string("--double-q wants true or false, got '") + wrong +
                                          "': write --double-q or --no-double-q"));
  }
  EXPECT_THAT([&] { parse(app, {"--json=maybe"}); },
              ThrowsMessage<UsageError>("--json wants true or false, got 'maybe': write --json"));
  EXPECT_TRUE(parse(app, {"dqn", "--double-q=true"}));
  EXPECT_TRUE(double_q);
  EXPECT_TRUE(parse(app, {"dqn", "--double-q=false"}));
  EXPECT_FALSE(double_q);
  EXPECT_THAT(
      [&] {
        parse(app, {"dqn", "--double-q", "false"});
      },
      ThrowsMessage<UsageError>("unexpected argument 'false': write --double-q=false, or --double-q or "
                                "--no-double-q (see: parl train --help)"));
}

TEST(EnvArgs, CommasAndRepetitionAsInTraining) {
  CLI::App app("", "parl eval");
  std::vector<std::string> texts;
  std::string run;
  app.add_option("run", run);
  add_env_args(app, texts, "options");
  ASSERT_TRUE(parse(app, {"--env-args", "a=1,b=x=y", "runs/one", "--env-args=size=[3,4],a=2", "--env-args",
                          "k={\"p\": 1, \"q\": 2}"}));
  EXPECT_EQ(run, "runs/one");
  std::map<std::string, std::string> args = {{"old", "0"}, {"b", "z"}};
  set_env_args(args, texts);
  EXPECT_THAT(
      args, testing::UnorderedElementsAre(testing::Pair("old", "0"), testing::Pair("a", "2"), testing::Pair("b", "x=y"),
                                          testing::Pair("size", "[3,4]"), testing::Pair("k", "{\"p\": 1, \"q\": 2}")));
  EXPECT_THAT([&] { set_env_args(args, {"a=1,b"}); }, ThrowsMessage<UsageError>("--env-args wants key=value, got 'b'"));
  EXPECT_THAT(app.help(), HasSubstr("key=value,..."));
}

TEST(ParseRange, RangesAndLists) {
  EXPECT_THAT(parse_range("1..5", "--seeds"), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(parse_range("4,1,7", "--seeds"), ElementsAre(4, 1, 7));
  EXPECT_THAT(parse_range("3", "--seeds"), ElementsAre(3));
  for (const char* wrong : {"", "a", "5..1", "1..", "1,,2", "1,1", "-1"})
    EXPECT_THROW(parse_range(wrong, "--seeds"), UsageError) << wrong;
}

TEST(CheckValues, NameOptionAndValue) {
  check_at_least("--episodes", 1, 1);
  EXPECT_THAT([] { check_at_least("--episodes", 0, 1); },
              ThrowsMessage<UsageError>("--episodes must be at least 1, not 0"));
  check_seconds("--timeout", 0.01, 60);
  for (const double wrong : {0.0, -1.0, std::nan(""), 1e300, 60.01})
    EXPECT_THAT([&] { check_seconds("--timeout", wrong, 60); },
                ThrowsMessage<UsageError>(HasSubstr("--timeout wants a number of seconds")));
}

TEST(ForUsers, LeavesOutWhereACheckStands) {
  std::string text;
  try {
    PARL_CHECK(text.size() == 1, "--lr wants [one] number");
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_THAT(text, HasSubstr("command_test.cc"));
  EXPECT_EQ(for_users(text), "--lr wants [one] number");
  EXPECT_EQ(for_users("plain"), "plain");
}

TEST(JsonLines, KeysInOrderEscapedAndNullForUnknown) {
  JsonLine json;
  json.add("a", 1)
      .add("b", 0.5)
      .add("nan", std::numeric_limits<double>::quiet_NaN())
      .add("none", std::optional<double>());
  json.add("text", "q\"\\\n").add("yes", true).add_raw("list", "[1]");
  EXPECT_EQ(json.text(),
            R"({"a": 1, "b": 0.5, "nan": null, "none": null, "text": "q\"\\\u000a", "yes": true, "list": [1]})");
}

struct Inner {
  double lr = 0.1;
  bool fast = true;
};
PARL_CONFIG(Inner, (lr, "learning rate"), (fast, "quickly"));
struct Outer {
  int actors = 2;
  std::map<std::string, std::string> env_args = {{"preset", "parl"}};
  Inner inner;
};
PARL_CONFIG(Outer, (actors, "how many"), (env_args, "of the environment"), (inner, ""));

TEST(ConfigFlags, BecomeOptionsAndAreAppliedLate) {
  Outer config;
  auto fields = config_fields(config);
  CLI::App app("", "x");
  ConfigFlags flags;
  flags.add_to(app, fields);
  ASSERT_TRUE(parse(app, {"--lr", "0.5", "--no-fast", "--env-args", "size=42", "--env-args", "sticky=0", "--actors=3",
                          "--actors", "4"}));
  EXPECT_EQ(config.actors, 2);
  flags.apply(fields);
  EXPECT_EQ(config.actors, 4);
  EXPECT_EQ(config.inner.lr, 0.5);
  EXPECT_FALSE(config.inner.fast);
  EXPECT_THAT(config.env_args,
              testing::UnorderedElementsAre(testing::Pair("preset", "parl"), testing::Pair("size", "42"),
                                            testing::Pair("sticky", "0")));
  EXPECT_TRUE(flags.given("lr"));
  EXPECT_FALSE(flags.given("run"));
}

TEST(ConfigFlags, WrongValuesAreTypedErrors) {
  Outer config;
  auto fields = config_fields(config);
  CLI::App app("", "x");
  ConfigFlags flags;
  flags.add_to(app, fields);
  ASSERT_TRUE(parse(app, {"--lr", "abc"}));
  EXPECT_THAT([&] { flags.apply(fields); }, ThrowsMessage<Error>("--lr wants a number, got 'abc'"));
}

TEST(ConfigFlags, HelpShowsEveryDefault) {
  Outer config;
  CLI::App app("", "x");
  ConfigFlags flags;
  flags.add_to(app, config_fields(config));
  config.actors = 77;
  flags.show_defaults(config_fields(config));
  const std::string help = app.help();
  for (const char* part : {"--actors", "77", "--lr", "0.1", "--fast", "preset=parl", "how many", "integer"})
    EXPECT_THAT(help, HasSubstr(part));
}

}  // namespace
}  // namespace parl::cli
