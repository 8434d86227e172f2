#include "parl/submit/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "parl/core/check.h"
#include "parl/core/error_of.h"
#include "parl/core/files.h"
#include "parl/submit/options.h"
#include "parl/submit/submit.h"

namespace parl::submit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

SubmitOptions some_options() {
  SubmitOptions o;
  o.on = Site::kSlurm;
  o.workers = 4;
  o.address = "learner.example:8037";
  o.dir = "/tmp/parl-plan";
  o.program = {"./my program", "--lr", "1"};
  return o;
}

TEST(Plan, TellsWorkersAndLearnerWhatTheyNeed) {
  ::unsetenv("PARL_TOKEN_FILE");
  SubmitOptions o = some_options();
  o.slots = 3;
  o.patience = 30;
  o.env = {"A=b=c"};
  o.program.push_back("--engine={engine}");
  const SubmitPlan plan = make_plan(o, "elsewhere", true);
  EXPECT_THAT(plan.worker_command(),
              ElementsAre("./my program", "--parl-worker", "tcp://learner.example:8037", "--slots", "3"));
  EXPECT_THAT(plan.learner_command(), ElementsAre("./my program", "--lr", "1", "--engine=tcp://0.0.0.0:8037"));
  EXPECT_THAT(plan.worker_environment(),
              ElementsAre(testing::Pair("PARL_WORKER_PATIENCE", "30"), testing::Pair("PARL_WORKER_FIRST_PATIENCE", "0"),
                          testing::Pair("A", "b=c")));
  EXPECT_EQ(plan.memory, int64_t{2} << 30);
  EXPECT_TRUE(plan.token_is_new);
  EXPECT_EQ(plan.token_file, "/tmp/parl-plan/token");
  EXPECT_EQ(plan.start_with, 4);
  EXPECT_EQ(plan.work_directory, std::filesystem::current_path().string());
}

TEST(Plan, ALearnerOnLoopbackListensThereAlone) {
  SubmitOptions o = some_options();
  o.address = "";
  const SubmitPlan plan = make_plan(o, "127.0.0.1", true);
  EXPECT_EQ(plan.listen(), plan.dial());
  EXPECT_GT(plan.port, 0);
  o.address = "[fd00::7]:99";
  EXPECT_EQ(make_plan(o, "", true).dial(), "tcp://[fd00::7]:99");
  EXPECT_EQ(make_plan(o, "", true).listen(), "tcp://[::]:99");
}

TEST(Plan, RefusesWhatCannotWork) {
  const struct {
    std::function<void(SubmitOptions&)> change;
    const char* expected;
  } cases[] = {
      {[](auto& o) { o.workers = 0; }, "how many workers"},
      {[](auto& o) { o.slots = 0; }, "--slots"},
      {[](auto& o) { o.cpus = 0; }, "--cpus"},
      {[](auto& o) { o.mem = "many"; }, "--mem wants a size"},
      {[](auto& o) { o.mem = "10K"; }, "--mem wants a size"},
      {[](auto& o) { o.address = "host:port"; }, "port of --address"},
      {[](auto& o) { o.address = "a b"; }, "names no host"},
      {[](auto& o) { o.address = "fd00::7"; }, "brackets"},
      {[](auto& o) { o.env = {"1A=b"}; }, "NAME=VALUE"},
      {[](auto& o) { o.env = {"PARL_TOKEN_FILE=x"}; }, "--token-file"},
      {[](auto& o) { o.token_file = "/no/such/token"; }, "parl keygen token"},
      {[](auto& o) { o.name = "1"; }, "--name"},
      {[](auto& o) { o.program.clear(); }, "no program"},
      {[](auto& o) { o.site_options = "'"; }, "quote"},
  };
  for (const auto& c : cases) {
    SubmitOptions o = some_options();
    c.change(o);
    EXPECT_THAT(error_of([&] { make_plan(o, "h", true); }), HasSubstr(c.expected));
  }
  SubmitOptions o = some_options();
  o.on = Site::kNone;
  EXPECT_THAT(error_of([&] { dry_run(o); }), HasSubstr("--on ssh|slurm|k8s|ray"));
  o = some_options();
  o.hosts = {"a"};
  EXPECT_THAT(error_of([&] { dry_run(o); }), HasSubstr("belong to --on ssh"));
  o = some_options();
  o.on = Site::kK8s;
  EXPECT_THAT(error_of([&] { dry_run(o); }), HasSubstr("--image"));
}

TEST(Plan, Memory) {
  EXPECT_EQ(parse_memory("512M"), int64_t{512} << 20);
  EXPECT_EQ(parse_memory("2Gi"), int64_t{2} << 30);
  EXPECT_EQ(parse_memory("1GB"), int64_t{1} << 30);
  EXPECT_EQ(parse_memory("2097152"), 2097152);
}

TEST(Hosts, AreDealtOutInTurnUpToTheirSlots) {
  const std::string file = testing::TempDir() + "parl-hosts-" + std::to_string(::getpid());
  write_file_atomically(file, "# ours\nb:2\n\n  c  # as many as come\n");
  const std::vector<Host> hosts = parse_hosts({"a:1", "fd00::1"}, file);
  std::filesystem::remove(file);
  ASSERT_EQ(hosts.size(), 4u);
  EXPECT_EQ(hosts[1].name, "fd00::1");
  EXPECT_EQ(hosts[2].slots, 2);
  EXPECT_EQ(hosts[3].slots, 0);
  EXPECT_THAT(deal_hosts(hosts, 7), ElementsAre("a", "fd00::1", "b", "c", "fd00::1", "b", "c"));
  EXPECT_THAT(deal_hosts(parse_hosts({"a:2", "b"}, ""), 0), ElementsAre("a", "b", "a"));
  EXPECT_THAT(error_of([] { deal_hosts({{"a", 2}}, 3); }), HasSubstr("2 slots together"));
  EXPECT_THAT(error_of([] { parse_hosts({}, ""); }), HasSubstr("--hosts"));
  EXPECT_THAT(error_of([] { parse_hosts({"-oProxyCommand=x"}, ""); }), HasSubstr("is no host"));
  EXPECT_THAT(error_of([] { parse_hosts({"a:x"}, ""); }), HasSubstr("slots of host"));
}

TEST(DryRun, ShowsEverySiteAndNoToken) {
  const std::string token = testing::TempDir() + "parl-token-" + std::to_string(::getpid());
  write_file_atomically(token, "0123456789abcdef-the-secret\n");
  SubmitOptions o = some_options();
  o.token_file = token;
  o.image = "";
  const struct {
    Site site;
    std::vector<std::string> expected;
  } cases[] = {
      {Site::kSsh, {"\nssh -T", " hosta ", "mktemp", "'./my program' --lr 1"}},
      {Site::kSlurm,
       {"#SBATCH --array=0-3", "#SBATCH --mem=2048M", "#SBATCH --requeue", "scontrol requeue", "scancel"}},
      {Site::kK8s, {"kind: Job", "kind: Service", "secretName: parl-my-program"}},
      {Site::kRay, {"\"cpus\": 1", "\"memory\": 2147483648", "--parl-worker"}},
  };
  for (const auto& c : cases) {
    o.on = c.site;
    o.hosts = c.site == Site::kSsh ? std::vector<std::string>{"hosta", "hostb"} : std::vector<std::string>{};
    o.image = c.site == Site::kK8s ? "image" : "";
    const std::string text = dry_run(o);
    for (const std::string& expected : c.expected) EXPECT_THAT(text, HasSubstr(expected));
    EXPECT_THAT(text, HasSubstr("tcp://learner.example:8037"));
    EXPECT_THAT(text, Not(HasSubstr("the-secret")));
    EXPECT_FALSE(std::filesystem::exists(o.dir)) << "a dry run makes nothing";
  }
  std::filesystem::remove(token);
}

}  // namespace
}  // namespace parl::submit
