// The program `parl` as its user meets it: verbs, near names, exit codes, --help and the keys of --json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "parl/core/files.h"
#include "parl/train/metrics.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int code = -1;
  std::string out, err;
  json last_line() const {
    const size_t end = out.find_last_not_of('\n'), start = out.rfind('\n', end);
    return json::parse(out.substr(start == std::string::npos ? 0 : start + 1, end - start));
  }
};

class CommandLine : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Outcome parl(const std::string& args) const {
    const std::string err = folder_ + "/err",
                      command = std::string(PARL_PROGRAM) + " " + args + " 2>" + err + " </dev/null";
    Outcome o;
    std::FILE* pipe = ::popen(command.c_str(), "r");
    char buffer[4096];
    for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) o.out.append(buffer, n);
    const int status = ::pclose(pipe);
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    o.err = parl::read_file(err);
    return o;
  }
  std::string small_run(const std::string& name) const {
    return "--env CartPole-v1 --actors 2 --envs-per-actor 4 --rollout-length 16 --log-steps 512 --quiet --run " +
           folder_ + "/" + name;
  }
  static void expect_keys(const json& object, const std::vector<std::string>& keys) {
    for (const std::string& key : keys) EXPECT_TRUE(object.contains(key)) << key << " in " << object.dump();
  }
  const std::string folder_ = testing::TempDir() + "parl_command_line_" + std::to_string(::getpid());
};

const std::vector<std::string> kTrainKeys = {"steps",           "frames",          "seconds",          "steps_per_s",
                                             "episodes",        "return_mean_100", "episodes_in_mean", "updates",
                                             "policy_lag_mean", "env_share",       "act_share",        "learn_share",
                                             "actors_replaced", "rss_mb",          "stop_reason"};

TEST_F(CommandLine, HelpAndVersion) {
  Outcome o = parl("--help");
  EXPECT_EQ(o.code, 0);
  for (const char* verb : {"train", "eval", "list", "bench"}) EXPECT_THAT(o.out, HasSubstr(verb));
  EXPECT_EQ(parl("").code, 2);
  o = parl("--version");
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.out, testing::MatchesRegex("parl [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_F(CommandLine, TrainsHelpShowsEveryOptionWithItsDefault) {
  const Outcome o = parl("train impala --env CartPole-v1 --help");
  EXPECT_EQ(o.code, 0) << o.err;
  for (const char* option :
       {"--run",           "--steps",     "--until-return",   "--until-seconds",   "--seed",           "--seeds",
        "--engine",        "--actors",    "--envs-per-actor", "--preset",          "--config",         "--json",
        "--epochs",        "--clip",      "--target-kl",      "--learner-threads", "--loss-reduction", "--max-lag",
        "--deterministic", "--eval-steps"}) {
    EXPECT_THAT(o.out, HasSubstr(option));
  }
  EXPECT_THAT(o.out, HasSubstr("preset classic"));
}

TEST_F(CommandLine, WrongWordsNameTheNearestAndExitWith2) {
  const struct {
    const char* args;
    const char* expected;
  } cases[] = {
      {"trian", "did you mean 'train'"},
      {"train impala --epoch 3", "did you mean '--epochs'"},
      {"train imapla", "did you mean 'impala'"},
      {"train impala --env CartPole-v2", "CartPole-v1"},
      {"train impala --preset prl", "did you mean 'parl'"},
      {"train impala --env CartPole-v1 --lr abc", "--lr wants a number, got 'abc'"},
      {"train impala --env CartPole-v1 --loss-reduction men", "did you mean 'mean'"},
      {"train impala --env CartPole-v1 --actors 0", "--actors must be at least 1"},
      {"train impala --seeds 5..1", "--seeds"},
      {"list env", "did you mean 'envs'"},
      {"bench trian", "did you mean 'train'"},
      {"eval", "run"},
      {"train impala --env CartPole-v1 --engine proces", "did you mean 'process'"},
      {"train impala --env CartPole-v1 --engine tcp://nowhere", "tcp://host:port"},
      {"train impala --env CartPole-v1 --model mpl", "did you mean 'mlp'"},
      {"train impala --env CartPole-v1 --parl-engine foo", "there is no engine 'foo'"},
      {"bench env --env CartPole-v2", "CartPole-v1"},
      {"bench remote --engine proces", "did you mean 'process'"},
      {"list envs --parl-metrics garbage", "--parl-metrics"},
      {"list envs --parl-slots many", "--parl-slots wants a number"},
      {"eval x --video x.avi", "must end with .gif or .mp4"},
      {"eval x --episodes 0", "--episodes must be at least 1, not 0"},
      {"eval x --seed -5", "--seed must be at least 0, not -5"},
      {"status tcp://127.0.0.1:1 --timeout nan", "--timeout wants a number of seconds"},
      {"train sac --env Pendulum-v1 --auto-alpha=foo", "--auto-alpha wants true or false, got 'foo'"},
      {"train sac --env Pendulum-v1 --auto-alpha false", "write --auto-alpha=false"},
      {"train dqn --env CartPole-v1 --n-step 0", "--n-step is 0, expected at least 1"},
      {"train dqn --env CartPole-v1 --lr-schedule 0:-1", "--lr-schedule has -1 at step 0"},
      {"train foo", "`parl list algorithms` shows all"},
      {"train ppo --env CartPole-v1 --model nosuch", "`parl list models` shows all"},
      {"train ppo --env CartPole-v1 --preset nosuch", "there is no preset 'nosuch'; there are: "},
      {"train ppo --env CartPole-v1 --preset atari",
       "--preset atari is not for 'CartPole-v1': it sets the environment option"},
      {"check env CartPole-v1 --env-args max_episode_steps=-5",
       "'max_episode_steps' of 'CartPole-v1' is -5; it must be"},
      {"record --env CartPole-v1 --out x --env-args max_episode_steps", "--env-args wants key=value"},
      {"submit --on ssh -n 0 -- x", "must be at least 1, not 0"},
      {"submit --on slurm -n 1 --mem lots -- x", "--mem wants a size"},
  };
  for (const auto& c : cases) {
    const Outcome o = parl(c.args);
    EXPECT_EQ(o.code, 2) << c.args << ": " << o.err;
    EXPECT_THAT(o.err, HasSubstr(c.expected)) << c.args;
    EXPECT_THAT(o.err, Not(HasSubstr("check failed"))) << c.args;
  }
}

// What cannot work leaves nothing behind.
TEST_F(CommandLine, ARefusedRunHasNoDirectory) {
  for (const char* wrong : {"--engine proces", "--model mpl", "--model nature", "--init-from nowhere"}) {
    const Outcome o = parl(std::string("train impala ") + small_run("refused") + " " + wrong);
    EXPECT_NE(o.code, 0) << wrong;
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/refused")) << wrong << ": " << o.err;
  }
  const struct {
    const char *args, *expected;
  } cases[] = {
      {"dqn --env Pendulum-v1 --model mlp", "ppo"},
      {"sac --env CartPole-v1", "impala"},
      {"dqn --env CartPole-v1 --model normalized:mlp", "These do: impala"},
      {"dqn --env CartPole-v1 --train-ratio inf", "train-ratio"},
      {"bc --env CartPole-v1 --data /nowhere/x", "/nowhere/x"},
      {"es --env multi:gather", "one agent at a time"},
      {"es --env CartPole-v1 --noise-table 10", "--noise-table"},
      {"ppo --env multi:gather --env-args agents=3 --envs-per-actor 8", "multiple of 3"},
  };
  for (const auto& c : cases) {
    const Outcome o = parl(std::string("train ") + c.args + " --run " + folder_ + "/refused");
    EXPECT_EQ(o.code, 2) << c.args << ": " << o.err;
    EXPECT_THAT(o.err, HasSubstr(c.expected)) << c.args;
    EXPECT_THAT(o.err, Not(HasSubstr("check failed"))) << c.args;
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/refused")) << c.args << ": " << o.err;
  }
}

TEST_F(CommandLine, FailedWorkExitsWith1) {
  Outcome o = parl("eval " + folder_ + "/nothing");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("nothing"));
  o = parl("train impala --env CartPole-v1 --run /proc/parl-run --steps 100");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("/proc/parl-run"));
}

TEST_F(CommandLine, ListsWhatThereIs) {
  EXPECT_THAT(parl("list envs").out, HasSubstr("CartPole-v1"));
  const Outcome o = parl("list algorithms --json");
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.last_line().at("algorithms").get<std::vector<std::string>>(), testing::Contains("impala"));
  EXPECT_THAT(parl("list models").out, HasSubstr("mlp"));
  EXPECT_THAT(parl("list presets").out, HasSubstr("parl"));
}

TEST_F(CommandLine, ListsOnesOptions) {
  const std::string some = parl("list envs pixel:b").out;
  EXPECT_THAT(some, HasSubstr("pixel:breakout"));
  EXPECT_THAT(some, HasSubstr("--env-args name=value"));
  EXPECT_THAT(some, Not(HasSubstr("CartPole")));
  EXPECT_THAT(parl("list presets impala").out, Not(HasSubstr("a2c")));
  const Outcome none = parl("list models mpl");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("mlp"));
}

TEST_F(CommandLine, ChecksPromises) {
  Outcome o = parl("check env CartPole-v1 --json");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.last_line(), json({{"name", "CartPole-v1"}, {"ok", true}, {"problems", json::array()}}));
  EXPECT_EQ(parl("check env CartPole-v1 --env-args max_episode_steps=0 --steps 3").code, 1);  // no episode ends
  o = parl("check algorithm a2c --updates 1 --json");
  EXPECT_EQ(o.code, 1);  // so little teaches nothing
  EXPECT_FALSE(o.last_line().at("problems").empty());
  for (const char* wrong :
       {"check", "check envs CartPole-v1", "check env Cart", "check algorithm es", "check algorithm ppq"}) {
    EXPECT_EQ(parl(wrong).code, 2) << wrong;
  }
}

TEST_F(CommandLine, TrainContinueEvaluate) {
  const std::string run = folder_ + "/run";
  Outcome o = parl("train impala --steps 2000 --json " + small_run("run"));
  ASSERT_EQ(o.code, 0) << o.err;
  json j = o.last_line();
  expect_keys(j, kTrainKeys);
  EXPECT_GE(j["steps"].get<int64_t>(), 2000);
  EXPECT_EQ(j["stop_reason"], "steps");
  EXPECT_NEAR(j["env_share"].get<double>() + j["act_share"].get<double>() + j["learn_share"].get<double>(), 1, 1e-6);
  for (const char* file : {"config.json", "metrics.csv", "tensorboard", "checkpoints"})
    EXPECT_TRUE(std::filesystem::exists(run + "/" + file)) << file;
  const auto rows = parl::read_metrics(run + "/metrics.csv").rows.size();
  EXPECT_GE(rows, 3U);

  const int64_t first = j["steps"].get<int64_t>();
  o = parl("train impala --steps 4000 --json " + small_run("run"));  // in total: it continues
  ASSERT_EQ(o.code, 0) << o.err;
  j = o.last_line();
  EXPECT_GE(j["steps"].get<int64_t>(), 4000);
  EXPECT_LT(j["steps"].get<int64_t>(), first + 3000);
  const auto steps = parl::read_metrics(run + "/metrics.csv").column("steps");
  EXPECT_GT(steps.size(), rows);
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));

  o = parl("eval " + run + " --episodes 3 --video " + run + "/film.gif --json");
  ASSERT_EQ(o.code, 0) << o.err;
  j = o.last_line();
  expect_keys(j, {"episodes", "policy", "truncated", "return_mean", "return_std", "return_median", "return_min",
                  "return_max", "length_mean"});
  EXPECT_EQ(j["episodes"], 3);
  EXPECT_EQ(j["policy"], "greedy");
  EXPECT_EQ(parl::read_file(run + "/film.gif").substr(0, 6), "GIF89a");

  o = parl("eval " + run + " --env-args size=3");
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("--env-args size=3: environment 'CartPole-v1' has no option 'size'"));
}

TEST_F(CommandLine, AConfigFileIsBeatenByFlagsAndUnknownKeysAreNamed) {
  const std::string file = folder_ + "/c.json";
  parl::write_file_atomically(file, R"({"steps": 1000, "impala": {"lr": 0.01}, "seed": 7})");
  Outcome o = parl("train impala --config " + file + " --seed 9 --json " + small_run("a"));
  ASSERT_EQ(o.code, 0) << o.err;
  const json saved = json::parse(parl::read_file(folder_ + "/a/config.json"));
  EXPECT_EQ(saved["seed"], 9);
  EXPECT_EQ(saved["impala"]["lr"], 0.01);
  EXPECT_EQ(saved["impala"]["epochs"], 4);  // of the preset
  EXPECT_LT(o.last_line()["steps"].get<int64_t>(), 1500);
  parl::write_file_atomically(file, R"({"impala": {"epoch": 1}})");
  o = parl("train impala --config " + file + " " + small_run("b"));
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("unknown key \"impala.epoch\", did you mean 'impala.epochs'"));
}

TEST_F(CommandLine, ARateThatIsSaidBeatsThePresetsSchedule) {
  const std::string train = "train impala --env atari:pong --help";
  const Outcome o = parl(train);
  if (o.code != 0) GTEST_SKIP() << "built without Atari";
  EXPECT_THAT(o.out, HasSubstr("0:1e-3,2.5e6:1e-4"));
  EXPECT_THAT(o.out, HasSubstr("0:0.01,2e6:0"));
  EXPECT_THAT(parl(train + " --lr 2e-4 --entropy-cost 0.02").out, Not(HasSubstr("schedule text=0")));
  const std::string file = folder_ + "/c.json";
  parl::write_file_atomically(file, R"({"impala": {"lr": 0.01}})");
  const Outcome from_file = parl(train + " --config " + file);
  EXPECT_THAT(from_file.out, Not(HasSubstr("lr-schedule text=0")));
  EXPECT_THAT(from_file.out, HasSubstr("0:0.01,2e6:0"));
}

TEST_F(CommandLine, MujocoTasksRunOrSayHowToGetThem) {
  const Outcome list = parl("list envs"),
                bench = parl("bench env --env Hopper-v5 --threads 1 --envs 1 --seconds 0.05 --json");
  EXPECT_THAT(list.out, HasSubstr("HalfCheetah-v5"));
  EXPECT_THAT(parl("train ppo --env Hopper-v5 --help").out, HasSubstr("0:3e-4,100%:0"));  // the preset's rate
  if (bench.code == 0) {
    EXPECT_GT(bench.last_line()["steps_per_s"], 0);
    EXPECT_THAT(list.out, HasSubstr("MuJoCo: "));
  } else {
    EXPECT_THAT(list.out, HasSubstr("not in this build: needs MuJoCo"));
    EXPECT_THAT(bench.err, HasSubstr("`make setup && make` fetches it"));
  }
}

TEST_F(CommandLine, SeveralSeedsGiveOneReport) {
  const Outcome o = parl("train impala --seeds 1..2 --steps 12000 --json " + small_run("seeds"));
  ASSERT_EQ(o.code, 0) << o.err;
  const json j = o.last_line();
  expect_keys(j, {"seeds", "runs", "return_mean", "return_low", "return_high", "curve_csv", "curve_svg"});
  EXPECT_EQ(j["runs"].size(), 2U);
  expect_keys(j["runs"][0], kTrainKeys);
  EXPECT_THAT(parl::read_file(folder_ + "/seeds/seeds.svg"), HasSubstr("<svg"));
  EXPECT_THAT(parl::read_metrics(folder_ + "/seeds/seeds.csv").columns,
              testing::ElementsAre("steps", "mean", "low", "high", "seed-1", "seed-2"));
}

TEST_F(CommandLine, CtrlCEndsCleanlyWithACheckpoint) {
  int out[2];
  ASSERT_EQ(::pipe(out), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::close(out[0]);
    ::close(out[1]);
    const std::string run = folder_ + "/run";
    ::execl(PARL_PROGRAM, "parl", "train", "impala", "--env", "CartPole-v1", "--log-steps", "256", "--steps",
            "1000000000", "--json", "--quiet", "--run", run.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(out[1]);
  const std::string csv = folder_ + "/run/metrics.csv";  // its first row: training goes on
  for (int i = 0; i < 600; ++i) {
    if (std::filesystem::exists(csv) && !parl::read_metrics(csv).rows.empty()) break;
    ::usleep(100'000);
  }
  ::kill(child, SIGINT);
  Outcome o;
  char buffer[4096];
  for (ssize_t n; (n = ::read(out[0], buffer, sizeof buffer)) > 0;) o.out.append(buffer, static_cast<size_t>(n));
  ::close(out[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(o.last_line()["stop_reason"], "interrupted");
  EXPECT_FALSE(std::filesystem::is_empty(folder_ + "/run/checkpoints"));
}

// `parl train ... 2>&1 | head -1`: who read the output has gone, the training has not.
TEST_F(CommandLine, TrainsAndRecordsOnWhenNobodyReadsIt) {
  const std::string into_nothing =
      "sh -c '(" + std::string(PARL_PROGRAM) + " %; echo $? >" + folder_ + "/code) 2>&1 | true'";
  const auto run = [&](std::string args) {
    std::string command = into_nothing;
    command.replace(command.find('%'), 1, args);
    EXPECT_EQ(std::system(command.c_str()), 0);
    return parl::read_file(folder_ + "/code");
  };
  EXPECT_EQ(
      run("train a2c --env CartPole-v1 --steps 2000 --log-steps 512 --status-seconds 0.01 --run " + folder_ + "/piped"),
      "1\n");  // its report is lost
  EXPECT_FALSE(std::filesystem::is_empty(folder_ + "/piped/checkpoints"));
  EXPECT_EQ(run("record --env CartPole-v1 --episodes 2 --out " + folder_ + "/demos"), "1\n");
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/demos"));
}

TEST_F(CommandLine, ResultsThatCannotBeWrittenAreAFailure) {
  for (const char* args : {"list envs", "--version", "check env CartPole-v1 --steps 200 --json"}) {
    const Outcome o = parl(std::string(args) + " >/dev/full");
    EXPECT_EQ(o.code, 1) << args;
    EXPECT_THAT(o.err, HasSubstr("cannot write 'standard output'")) << args;
  }
}

TEST_F(CommandLine, AFilmThatFailsCostsNoScores) {
  ASSERT_EQ(parl("train a2c --steps 500 " + small_run("run")).code, 0);
  const std::string film = folder_ + "/film.gif";
  Outcome o;
  // Files of at most 4 kB.
  const std::string limited = "sh -c 'trap \"\" XFSZ; ulimit -f 8; " + std::string(PARL_PROGRAM) + " eval " + folder_ +
                              "/run --episodes 4 --json --video " + film + "' 2>" + folder_ + "/why >" + folder_ +
                              "/out";
  const int status = std::system(limited.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  o.out = parl::read_file(folder_ + "/out");
  EXPECT_EQ(o.last_line()["episodes"], 4);
  EXPECT_TRUE(o.last_line()["video"].is_null());
  EXPECT_THAT(parl::read_file(folder_ + "/why"), HasSubstr("no film: cannot write '" + film + "'"));
  for (const char* rest : {"", ".part"}) EXPECT_FALSE(std::filesystem::exists(film + rest));
}

TEST_F(CommandLine, EveryVerbTakesEnvArgsAlike) {
  const std::string two = " --env-args max_episode_steps=3,goal_velocity=0.01 --env-args goal_velocity=0.02";
  const Outcome o = parl("record --env MountainCar-v0 --episodes 2 --json --out " + folder_ + "/demos" + two);
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.last_line()["steps"], 6);
  EXPECT_EQ(parl("check env MountainCar-v0 --steps 50" + two).code, 0);
  EXPECT_EQ(parl("bench env --env MountainCar-v0 --threads 1 --envs 1 --seconds 0.01" + two).code, 0);
  ASSERT_EQ(parl("train a2c --env MountainCar-v0 --actors 1 --steps 200 --quiet --run " + folder_ + "/car" + two).code,
            0);
  EXPECT_EQ(parl("eval " + folder_ + "/car --episodes 2 --json" + two).last_line()["length_mean"], 3);
  for (const char* verb : {"eval", "record", "check env", "bench env", "train"}) {
    EXPECT_THAT(parl(std::string(verb) + " --help").out, HasSubstr("key=value,...")) << verb;
  }
}

}  // namespace
