// `parl submit --on slurm` against a real Slurm on this machine alone: munged, slurmctld and slurmd of the test's own.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "parl/core/files.h"
#include "parl/submit/plan.h"
#include "parl/submit/site_test.h"
#include "parl/submit/submit.h"

namespace parl::submit {
namespace {

namespace fs = std::filesystem;

class SlurmLauncherTest : public SiteTest {
 protected:
  void SetUp() override {
    for (const char* tool : {"munged", "slurmctld", "slurmd", "sbatch"}) {
      if (!has_program(tool) && !has_program(std::string("/usr/sbin/") + tool))
        GTEST_SKIP() << "no '" << tool << "' here (apt-get install slurm-wlm munge)";
    }
    if (::geteuid() != 0) GTEST_SKIP() << "slurmd wants root";
    SiteTest::SetUp();
    ::chmod(folder_.c_str(), 0755);  // munged insists
    host_ = this_host();
    config_ = folder_ + "/slurm.conf";
    write_config();
    for (const char* name : {"state", "spool"}) fs::create_directory(folder_ + "/" + name);
    write_file_atomically(folder_ + "/munge.key", std::string(128, 'k') + std::to_string(port_));
    ::chmod((folder_ + "/munge.key").c_str(), 0600);
    ::setenv("SLURM_CONF", config_.c_str(), 1);
    ::setenv("PATH", (std::string(std::getenv("PATH")) + ":/usr/sbin").c_str(), 1);
    start({"munged", "--foreground", "--force", "--key-file=" + folder_ + "/munge.key", "--socket=" + socket(),
           "--pid-file=" + folder_ + "/munged.pid", "--log-file=" + folder_ + "/munged.log",
           "--seed-file=" + folder_ + "/munged.seed"});
    ASSERT_TRUE(eventually([this] { return fs::exists(socket()); })) << contents_or_empty(folder_ + "/daemons");
    start({"slurmctld", "-D", "-f", config_});
    start({"slurmd", "-D", "-N", host_, "-f", config_});
    ASSERT_TRUE(eventually([] {
      return run_command({{"sinfo", "--noheader", "--format=%T"}}, std::chrono::seconds(60)).output == "idle\n";
    })) << contents_or_empty(folder_ + "/daemons");
  }

  void TearDown() override {
    while (!daemons_.empty()) daemons_.pop_back();
    SiteTest::TearDown();
  }

  void start(std::vector<std::string> argv) {
    daemons_.push_back(std::make_unique<Daemon>(std::move(argv), folder_ + "/daemons"));
  }

  std::string socket() const { return folder_ + "/munge.socket"; }

  void write_config() {
    const int first = free_port_for_test(), second = free_port_for_test();
    write_file_atomically(
        config_,
        fmt::format("ClusterName=parltest\nSlurmctldHost={0}(127.0.0.1)\nSlurmctldPort={2}\nSlurmdPort={3}\n"
                    "SlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\nAuthInfo=socket={4},cred_expire=5\n"
                    "CredType=cred/munge\nStateSaveLocation={1}/state\nSlurmdSpoolDir={1}/spool\n"
                    "SlurmctldPidFile={1}/slurmctld.pid\nSlurmdPidFile={1}/slurmd.pid\n"
                    "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n"
                    "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU_Memory\n"
                    "SlurmdParameters=config_overrides\nReturnToService=2\nKillWait=5\nMailProg=/bin/true\n"
                    "MpiDefault=none\nSwitchType=switch/none\n"
                    "NodeName={0} NodeAddr=127.0.0.1 CPUs=8 RealMemory=4000 State=UNKNOWN\n"
                    "PartitionName=debug Nodes={0} Default=YES MaxTime=INFINITE State=UP\n",
                    host_, folder_, first, second, socket()));
  }

  bool queue_is_empty() const {
    return eventually([] {
      return run_command({{"squeue", "--noheader", "--format=%i"}}, std::chrono::seconds(60)).output.empty();
    });
  }

  std::string host_, config_;
  std::vector<std::unique_ptr<Daemon>> daemons_;
};

TEST_F(SlurmLauncherTest, RunsALearnerAndItsWorkers) {
  SubmitOptions o = options(Site::kSlurm);
  o.workers = 3;
  o.site_options = "--partition=debug --comment='two words'";
  SubmitProcess submit(o, folder_);
  EXPECT_EQ(submit.wait(), 0) << submit.err();
  EXPECT_NE(submit.out().find("hello you, I am bob\n5 8\n"), std::string::npos) << submit.out();
  EXPECT_NE(submit.err().find("workers: 3 running (0-2)"), std::string::npos) << submit.err();
  EXPECT_NE(submit.err().find("[worker 0"), std::string::npos) << submit.err();
  EXPECT_TRUE(queue_is_empty());
  EXPECT_TRUE(has_no_workers());
  expect_token_is_secret(submit);
}

TEST_F(SlurmLauncherTest, AWorkerThatFailsGoesBackIntoTheQueue) {
  SubmitOptions o = options(Site::kSlurm);
  o.program = {waiting_program()};
  SubmitProcess submit(o, folder_);
  ASSERT_TRUE(submit.says("waits")) << submit.err();
  ASSERT_TRUE(eventually([this] { return workers().size() == 2; })) << submit.err();
  expect_token_is_secret(submit);
  const pid_t victim = workers()[0];
  ::kill(victim, SIGKILL);
  EXPECT_TRUE(submit.says("the worker has ended with code 137: back into the queue")) << submit.err();
  EXPECT_TRUE(submit.says("1 pending")) << submit.err();
  EXPECT_TRUE(eventually(
      [&] {
        const auto now = workers();
        return now.size() == 2 && std::find(now.begin(), now.end(), victim) == now.end();
      },
      std::chrono::seconds(200)))
      << submit.err();
  submit.signal(SIGINT);
  EXPECT_EQ(submit.wait(), 7) << submit.err();
  EXPECT_TRUE(queue_is_empty());
  EXPECT_TRUE(has_no_workers());
}

TEST_F(SlurmLauncherTest, WhatSlurmRefusesIsSaid) {
  SubmitOptions o = options(Site::kSlurm);
  o.site_options = "--partition=none-such";
  SubmitProcess submit(o, folder_);
  EXPECT_EQ(submit.wait(), 1);
  EXPECT_NE(submit.err().find("sbatch refuses the workers"), std::string::npos) << submit.err();
  EXPECT_NE(submit.err().find("partition"), std::string::npos) << submit.err();
}

// The batch script alone, with a stand-in for scontrol: what goes back into the queue, and what does not.
TEST_F(SiteTest, TheBatchScriptTellsFailuresFromEnds) {
  const auto write_program = [&](const std::string& file, const std::string& text) {
    write_file_atomically(file, "#!/bin/sh\n" + text);
    ::chmod(file.c_str(), 0755);
  };
  write_program(folder_ + "/scontrol", fmt::format("echo \"$@\" >>{}/calls\nexit 1\n", folder_));
  SubmitOptions o = options(Site::kSlurm);
  o.program = {folder_ + "/worker.sh"};
  const std::string text = dry_run(o);
  write_file_atomically(folder_ + "/batch", text.substr(text.find("#!/bin/sh")));
  fs::create_directory(folder_ + "/run");
  const struct {
    const char *worker, *restarts;
    bool is_ending;
    int code;
    bool is_requeued;
  } cases[] = {
      {"exit 0", "0", false, 0, false},          {"exit 9", "0", false, 9, true},
      {"kill -KILL $$", "4", false, 137, true},  {"exit 9", "5", false, 9, false},
      {"kill -TERM $$", "0", false, 143, false}, {"exit 9", "0", true, 9, false},
  };
  for (const auto& c : cases) {
    write_program(folder_ + "/worker.sh", c.worker);
    fs::remove(folder_ + "/calls");
    if (c.is_ending) write_file_atomically(folder_ + "/run/ended", "");
    Command command{{"sh", folder_ + "/batch"}};
    command.environment = {{"PATH", folder_ + ":" + std::getenv("PATH")},
                           {"SLURM_RESTART_COUNT", c.restarts},
                           {"SLURM_ARRAY_JOB_ID", "7"},
                           {"SLURM_ARRAY_TASK_ID", "1"}};
    const Outcome outcome = run_command(command, std::chrono::seconds(60));
    EXPECT_EQ(outcome.code, c.code) << c.worker << ": " << outcome.output;
    EXPECT_EQ(contents_or_empty(folder_ + "/calls"), c.is_requeued ? "requeue 7_1\n" : "") << c.worker << c.restarts;
  }
}

}  // namespace
}  // namespace parl::submit
