// `parl submit --on ray` against a real Ray cluster of two nodes on this machine, guarded by Ray's own token.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "parl/core/files.h"
#include "parl/remote/keygen.h"
#include "parl/submit/site_test.h"
#include "parl/submit/submit.h"

namespace parl::submit {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr seconds kSlow(280);  // Ray starts a Python per worker

class RayLauncherTest : public SiteTest {
 protected:
  void SetUp() override {
    const std::string python = PARL_SITES_PYTHON;
    if (python.empty() || run_command({{python, "-c", "import ray"}}, kSlow).code != 0)
      GTEST_SKIP() << "no Python with the package ray: PARL_TEST_SITES=ray scripts/setup.sh";
    SiteTest::SetUp();
    ray_ = fs::path(python).parent_path().string() + "/ray";
    make_token(folder_ + "/ray-token");
    ray_port_ = free_port_for_test();
    // Sockets lie below the temporary directory: their paths must be short.
    temporary_ = fmt::format("/tmp/parl-ray-{}", ::getpid());
    ::setenv("RAY_AUTH_MODE", "token", 1);
    ::setenv("RAY_AUTH_TOKEN_PATH", (folder_ + "/ray-token").c_str(), 1);
    ::unsetenv("RAY_ADDRESS");
    start_node("head", {"--head", fmt::format("--port={}", ray_port_), "--include-dashboard=false",
                        "--temp-dir=" + temporary_});
    if (!HasFatalFailure()) start_node("second", {fmt::format("--address=127.0.0.1:{}", ray_port_)});
  }

  void start_node(const std::string& name, const std::vector<std::string>& options) {
    std::vector<std::string> argv = {ray_,
                                     "start",
                                     "--block",
                                     "--node-ip-address=127.0.0.1",
                                     "--num-cpus=1",
                                     "--memory=500000000",
                                     "--object-store-memory=100000000",
                                     "--disable-usage-stats"};
    argv.insert(argv.end(), options.begin(), options.end());
    const std::string output = folder_ + "/" + name;
    const auto is_up = [&] { return contents_or_empty(output).find("Ray runtime started") != std::string::npos; };
    for (int attempt = 0; attempt < 3; ++attempt) {  // Ray gives a node 30 s, which is not much on a busy machine
      nodes_.push_back(std::make_unique<Daemon>(argv, output));
      ASSERT_TRUE(eventually([&] { return is_up() || !nodes_.back()->is_running(); }, kSlow));
      if (is_up()) return;
      nodes_.pop_back();
    }
    FAIL() << "no Ray node starts: " << contents_or_empty(output);
  }

  void TearDown() override {
    while (!nodes_.empty()) nodes_.pop_back();
    // What a node leaves behind. `ray stop` would end every Ray of this machine: ours are those that know our token.
    for (const pid_t pid : ours()) ::kill(pid, SIGKILL);
    if (!temporary_.empty()) fs::remove_all(temporary_);
    SiteTest::TearDown();
  }

  std::vector<pid_t> ours() const { return processes_with("RAY_AUTH_TOKEN_PATH=" + folder_ + "/ray-token", "environ"); }

  SubmitOptions ray_options() const {
    SubmitOptions o = options(Site::kRay);
    o.ray_address = fmt::format("127.0.0.1:{}", ray_port_);
    o.ray_python = PARL_SITES_PYTHON;
    return o;
  }

  std::string ray_, temporary_;
  std::vector<std::unique_ptr<Daemon>> nodes_;
  int ray_port_ = 0;
};

// One test: the cluster is slow to start.
TEST_F(RayLauncherTest, RunsWorkersStartsAKilledOneAgainAndEndsThem) {
  {
    SubmitProcess submit(ray_options(), folder_);
    EXPECT_EQ(submit.wait(kSlow), 0) << submit.err();
    EXPECT_NE(submit.out().find("hello you, I am bob\n5 8\n"), std::string::npos) << submit.out();
    EXPECT_NE(submit.err().find("workers: 2 running (0-1)"), std::string::npos) << submit.err();
    EXPECT_NE(submit.err().find("[worker 0"), std::string::npos) << submit.err();
    EXPECT_TRUE(has_no_workers());
    expect_token_is_secret(submit);
  }
  SubmitOptions o = ray_options();
  o.program = {waiting_program()};
  SubmitProcess submit(o, folder_);
  ASSERT_TRUE(submit.says("waits", kSlow)) << submit.err();
  ASSERT_TRUE(eventually([this] { return workers().size() == 2; })) << submit.err();
  expect_token_is_secret(submit);
  const pid_t victim = workers()[0];
  ::kill(victim, SIGKILL);
  EXPECT_TRUE(submit.says("was killed by signal 9; Ray starts it again (1 of 5)")) << submit.err();
  EXPECT_TRUE(eventually(
      [&] {
        const auto now = workers();
        return now.size() == 2 && std::find(now.begin(), now.end(), victim) == now.end();
      },
      kSlow))
      << submit.err();
  submit.signal(SIGTERM);
  EXPECT_EQ(submit.wait(kSlow), 7) << submit.err();
  EXPECT_TRUE(has_no_workers());
}

TEST_F(SiteTest, APythonWithoutRayIsAnErrorThatNamesThePackage) {
  SubmitOptions o = options(Site::kRay);
  o.ray_python = folder_ + "/python";
  write_file_atomically(o.ray_python, "#!/bin/sh\nexec python3 -S \"$@\"\n");  // -S: without any installed package
  fs::permissions(o.ray_python, fs::perms::owner_all);
  if (!has_program("python3")) GTEST_SKIP() << "no python3 here";
  SubmitProcess submit(o, folder_);
  EXPECT_EQ(submit.wait(), 1);
  EXPECT_NE(submit.err().find("has no package ray"), std::string::npos) << submit.err();
  EXPECT_NE(submit.err().find("pip install ray"), std::string::npos) << submit.err();
}

}  // namespace
}  // namespace parl::submit
