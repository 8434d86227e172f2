#include "parl/remote/internal/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "parl/remote/conformance.h"
#include "parl/remote/internal/tcp_test_worker.h"
#include "parl/remote/keygen.h"

namespace parl::internal {
namespace {

using namespace std::chrono_literals;
using conformance::Counter;
using conformance::eventually;
using conformance::expect_remote_error;
using conformance::Gate;
using conformance::Values;
using ::testing::HasSubstr;

struct Folder {
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  const std::string path = Gate().path() + "_keys";
};

Options with_certificates(const std::string& folder) {
  Options o;
  o.engine = "tcp://127.0.0.1:0";
  o.certificates = folder;
  o.create_timeout = 20s;
  return o;
}

TEST(Keygen, FilesAreNewAndPrivate) {
  const Folder folder;
  const std::string file = folder.path + "/token";
  make_token(file);
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(status.st_size, 65);
  EXPECT_THROW(make_token(file), Error) << "it is overwritten";
  make_certificates(folder.path + "/a", {"127.0.0.1", "localhost"});
  ASSERT_EQ(::stat((folder.path + "/a/learner/key.pem").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_THROW(make_certificates(folder.path + "/a", {"localhost"}), Error);
  EXPECT_THROW(make_certificates(folder.path + "/b", {"a,DNS:b"}), Error);
}

TEST(Tls, ValuesTravelEncrypted) {
  const Folder folder;
  make_certificates(folder.path, {"127.0.0.1"});
  RemoteManager manager(with_certificates(folder.path + "/learner"));
  const TestWorker worker(manager.engine(), 2, {{"PARL_CERTIFICATES", folder.path + "/worker"}});
  auto counter = manager.create<Counter>(4);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(counter->increment(), 5 + i);
  auto values = manager.create<Values>();
  for (const int64_t n : {10, 20000, 2000000}) {
    Array a = Array::empty(DType::kF64, {n});
    for (int64_t i = 0; i < n; ++i) a.data<double>()[i] = static_cast<double>(i);
    EXPECT_EQ(values->echo_array(a), a);
  }
}

// A worker that is not let in, with what it says about it.
void expect_turned_away(const std::string& learner, std::vector<std::pair<std::string, std::string>> environment,
                        const std::string& why) {
  RemoteManager manager(with_certificates(learner));
  TestWorker worker(manager.engine(), 1, std::move(environment));
  EXPECT_TRUE(eventually([&] { return worker.output().find(why) != std::string::npos; }, 20s)) << worker.output();
  EXPECT_TRUE(eventually([&] {  // the learner says it too
    const auto error =
        expect_remote_error(RemoteErrorKind::kRefused, [&] { manager.create<Counter>(Place{.timeout = 1ms}); });
    return error.message().find("failed in the TLS handshake") != std::string::npos;
  }));
}

TEST(Tls, ATokenWithin) {
  const Folder folder;
  make_certificates(folder.path, {"127.0.0.1"});
  make_token(folder.path + "/token");
  Options options = with_certificates(folder.path + "/learner");
  options.token_file = folder.path + "/token";
  RemoteManager manager(options);
  const TestWorker worker(
      manager.engine(), 1,
      {{"PARL_CERTIFICATES", folder.path + "/worker"}, {"PARL_TOKEN_FILE", folder.path + "/token"}});
  EXPECT_EQ(manager.create<Counter>(4)->get(), 4);
}

TEST(Tls, APeerThatHasGoneIsAnErrorAndNoSignal) {
  const Folder folder;
  make_certificates(folder.path, {"127.0.0.1"});
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  auto learner = TlsContext::load(folder.path + "/learner")->accept(UniqueFd(fds[0]), true);
  auto worker = TlsContext::load(folder.path + "/worker")->connect(UniqueFd(fds[1]), "*");
  bool is_done = false;
  for (int i = 0; i < 100 && !is_done; ++i) {
    const auto there = learner->handshake(), here = worker->handshake();
    ASSERT_NE(there, Transport::Step::kFailed) << learner->error();
    ASSERT_NE(here, Transport::Step::kFailed) << worker->error();
    is_done = there == Transport::Step::kDone && here == Transport::Step::kDone;
  }
  ASSERT_TRUE(is_done);
  EXPECT_EQ(learner->binding().size(), 32u);
  EXPECT_EQ(learner->binding(), worker->binding());
  worker.reset();  // as when its process is killed: no word of parting
  std::vector<char> bytes(100000);
  const iovec piece{bytes.data(), bytes.size()};
  EXPECT_EQ(learner->write(&piece, 1), Transport::kClosed);  // SIGPIPE would end this program
  EXPECT_THAT(learner->error(), HasSubstr("cut off"));
}

TEST(Tls, AKilledWorkerUnderFire) {
  const Folder folder;
  make_certificates(folder.path, {"127.0.0.1"});
  RemoteManager manager(with_certificates(folder.path + "/learner"));
  const TestWorker worker(manager.engine(), 1, {{"PARL_CERTIFICATES", folder.path + "/worker"}});
  auto counter = manager.create<Counter>(1);
  worker.signal(SIGKILL);
  expect_remote_error(RemoteErrorKind::kLost, [&] {
    std::vector<Future<int>> results;
    for (;;) {
      results.push_back(counter.async()->increment());
      if (results.size() > 100) results.front().get(), results.erase(results.begin());
    }
  });
}

TEST(Tls, OthersAreTurnedAway) {
  const Folder folder;
  make_certificates(folder.path + "/ours", {"127.0.0.1"});
  make_certificates(folder.path + "/theirs", {"127.0.0.1"});
  make_certificates(folder.path + "/elsewhere", {"learner.example"});
  const std::string learner = folder.path + "/ours/learner";
  expect_turned_away(learner, {}, "trying again");  // it speaks no TLS
  expect_turned_away(learner, {{"PARL_CERTIFICATES", folder.path + "/theirs/worker"}}, "failed in the TLS handshake");
  expect_turned_away(folder.path + "/elsewhere/learner", {{"PARL_CERTIFICATES", folder.path + "/elsewhere/worker"}},
                     "mismatch");
}

TEST(Tls, AFolderWithoutKeysIsSaid) {
  try {
    RemoteManager manager(with_certificates("/nowhere"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("parl keygen certificates"));
  }
}

}  // namespace
}  // namespace parl::internal
