// `parl submit --on ssh` against a real sshd, on a high port of this machine.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "parl/core/files.h"
#include "parl/submit/plan.h"
#include "parl/submit/quote.h"
#include "parl/submit/site_test.h"
#include "parl/submit/submit.h"

namespace parl::submit {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSshd = "/usr/sbin/sshd";  // it insists on its whole path

class SshLauncherTest : public SiteTest {
 protected:
  void SetUp() override {
    if (!has_program("ssh") || !has_program(kSshd)) GTEST_SKIP() << "no sshd here (apt-get install openssh-server)";
    SiteTest::SetUp();
    for (const char* key : {"host", "user"}) {
      const Outcome made = run_command({{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder_ + "/" + key}},
                                       std::chrono::seconds(60));
      ASSERT_EQ(made.code, 0) << made.output;
    }
    if (::geteuid() == 0) fs::create_directories("/run/sshd");  // where sshd of root lets strangers live
    ssh_port_ = free_port_for_test();
    start_sshd();
    ASSERT_TRUE(eventually([this] { return run_command({ssh("true")}, std::chrono::seconds(60)).code == 0; }))
        << contents_or_empty(folder_ + "/sshd.log");
  }

  void start_sshd() {
    write_file_atomically(folder_ + "/sshd_config",
                          fmt::format("Port {}\nListenAddress 127.0.0.1\nHostKey {}/host\nAuthorizedKeysFile "
                                      "{}/user.pub\nPidFile none\nUsePAM no\nStrictModes no\n"
                                      "PasswordAuthentication no\n",
                                      ssh_port_, folder_, folder_));
    sshd_ = std::make_unique<Daemon>(std::vector<std::string>{kSshd, "-D", "-e", "-f", folder_ + "/sshd_config"},
                                     folder_ + "/sshd.log");
  }

  std::string site_options() const {
    return fmt::format(
        "-F none -p {} -i '{}/user' -oStrictHostKeyChecking=no -oUserKnownHostsFile=/dev/null -oIdentitiesOnly=yes "
        "-oLogLevel=ERROR",
        ssh_port_, folder_);
  }

  std::vector<std::string> ssh(const std::string& command) const {
    std::vector<std::string> argv = {"ssh"};
    for (const std::string& word : shell_split(site_options())) argv.push_back(word);
    argv.insert(argv.end(), {"-oBatchMode=yes", "127.0.0.1", command});
    return argv;
  }

  SubmitOptions ssh_options() const {
    SubmitOptions o = options(Site::kSsh);
    o.hosts = {"127.0.0.1:2"};
    o.site_options = site_options();
    o.env = {"TMPDIR=" + folder_ + "/run"};  // where the token's file goes over there
    return o;
  }

  bool left_no_token() const {  // the folders made over there are gone
    for (const auto& entry : fs::directory_iterator(folder_ + "/run")) {
      if (entry.is_directory()) return false;
    }
    return true;
  }

  int ssh_port_ = 0;
  std::unique_ptr<Daemon> sshd_;
};

TEST_F(SshLauncherTest, RunsALearnerAndItsWorkers) {
  SubmitProcess submit(ssh_options(), folder_);
  EXPECT_EQ(submit.wait(), 0) << submit.err();
  EXPECT_NE(submit.out().find("hello you, I am bob\n5 8\n"), std::string::npos) << submit.out();
  EXPECT_NE(submit.err().find("workers: 2 running (0-1)"), std::string::npos) << submit.err();
  EXPECT_NE(submit.err().find("[worker 0 127.0.0.1] "), std::string::npos) << submit.err();
  EXPECT_TRUE(has_no_workers());
  EXPECT_TRUE(eventually([this] { return left_no_token(); }));
  expect_token_is_secret(submit);
}

TEST_F(SshLauncherTest, StartsAWorkerThatIsKilledAgainAndEndsWithTheLearnersCode) {
  SubmitOptions o = ssh_options();
  o.program = {waiting_program()};
  SubmitProcess submit(o, folder_);
  ASSERT_TRUE(submit.says("waits")) << submit.err();
  ASSERT_TRUE(eventually([this] { return workers().size() == 2; }));
  expect_token_is_secret(submit);
  const pid_t victim = workers()[0];
  ::kill(victim, SIGKILL);
  EXPECT_TRUE(submit.says("was killed by signal 9; starting it again in 1 s (1 of 5)")) << submit.err();
  EXPECT_TRUE(eventually([&] {
    const auto now = workers();
    return now.size() == 2 && std::find(now.begin(), now.end(), victim) == now.end();
  })) << submit.err();
  go();
  EXPECT_EQ(submit.wait(), 3) << submit.err();
  EXPECT_TRUE(has_no_workers());
}

TEST_F(SshLauncherTest, ASignalEndsTheLearnerAndThenTheWorkers) {
  SubmitOptions o = ssh_options();
  o.program = {waiting_program()};
  SubmitProcess submit(o, folder_);
  ASSERT_TRUE(submit.says("waits")) << submit.err();
  submit.signal(SIGTERM);
  EXPECT_EQ(submit.wait(), 7) << submit.err();
  EXPECT_TRUE(submit.says("learner ends"));
  EXPECT_TRUE(has_no_workers());
}

TEST_F(SshLauncherTest, WhenItIsKilledItsConnectionsEndAndTheWorkersWithThem) {
  SubmitOptions o = ssh_options();
  o.program = {waiting_program()};
  SubmitProcess submit(o, folder_);
  ASSERT_TRUE(submit.says("waits")) << submit.err();
  ASSERT_TRUE(eventually([this] { return workers().size() == 2; }));
  submit.signal(SIGKILL);
  EXPECT_EQ(submit.wait(), 128 + SIGKILL);
  EXPECT_TRUE(has_no_workers());
  EXPECT_TRUE(eventually([this] { return left_no_token(); }));
  EXPECT_TRUE(submit.says("learner ends"));  // it got SIGTERM
}

TEST_F(SshLauncherTest, AnInterruptBeforeThereIsALearnerEndsTheWorkers) {
  SubmitOptions o = ssh_options();
  o.program = {waiting_program()};
  o.hosts = {"127.0.0.1:1", "no-such-host.invalid:1"};
  o.restarts = 1000;
  SubmitProcess submit(o, folder_);
  ASSERT_TRUE(submit.says("1 running (0), 1 pending (1)")) << submit.err();
  submit.signal(SIGINT);
  EXPECT_EQ(submit.wait(), 130) << submit.err();
  EXPECT_TRUE(has_no_workers());
}

TEST_F(SshLauncherTest, WithoutAnyWorkerItGivesUpAndSaysWhy) {
  SubmitOptions o = ssh_options();
  o.restarts = 0;
  o.chdir = "/no/such/folder";
  SubmitProcess submit(o, folder_);
  EXPECT_EQ(submit.wait(), 1);
  EXPECT_NE(submit.err().find("worker 0 on 127.0.0.1 failed: the directory is not there; see --chdir"),
            std::string::npos)
      << submit.err();
  EXPECT_NE(submit.err().find("no worker is left: giving up"), std::string::npos) << submit.err();
}

TEST_F(SshLauncherTest, GroupsOfGpusAndStrangeArgumentsArriveAsTheyWere) {
  const std::string program = folder_ + "/it's a \"program\" $HOME.sh", child = fmt::format("sleep 1{}", port_);
  write_file_atomically(program,
                        "#!/bin/sh\n[ \"$1\" = --parl-worker ] || exec sleep 1000\n"
                        "echo \"gpus <$CUDA_VISIBLE_DEVICES> value <$STRANGE>\"\n" +
                            child + "\n");
  ::chmod(program.c_str(), 0755);
  SubmitOptions o = ssh_options();
  o.program = {program};
  o.gpus = 2;
  o.env.push_back("STRANGE=a 'b' \"c\" $HOME; `d` \\ \t!");
  SubmitProcess submit(o, folder_);
  EXPECT_TRUE(submit.says("gpus <0,1> value <a 'b' \"c\" $HOME; `d` \\ \t!>")) << submit.err();
  EXPECT_TRUE(submit.says("gpus <2,3>")) << submit.err();
  EXPECT_TRUE(eventually([&] { return processes_with(child).size() == 2; }));
  submit.signal(SIGTERM);
  EXPECT_NE(submit.wait(), -1);
  EXPECT_TRUE(eventually([&] { return processes_with(child).empty(); })) << "what a worker started ends with it";
}

// The guard for what no launcher can end any more.
TEST_F(SiteTest, AWorkerThatHasLostItsLearnerEndsByItself) {
  const std::string address = fmt::format("tcp://127.0.0.1:{}", port_);
  Daemon worker({hello_program(), "--parl-worker", address}, folder_ + "/worker",
                {{"PARL_WORKER_PATIENCE", "1"}, {"PARL_WORKER_FIRST_PATIENCE", "0"}});
  const Outcome learner = run_command({{hello_program(), "--parl-engine", address}}, std::chrono::seconds(60));
  EXPECT_EQ(learner.code, 0) << learner.output;
  EXPECT_TRUE(eventually([&] { return !worker.is_running(); })) << contents_or_empty(folder_ + "/worker");
  EXPECT_NE(contents_or_empty(folder_ + "/worker").find("this worker ends"), std::string::npos);
}

}  // namespace
}  // namespace parl::submit
