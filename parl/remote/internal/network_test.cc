// Faults of a real network and of a real disk: two network namespaces with a link between them that goes down, comes
// back and is slow; a file system that is full. Only where this process may make such things (root, iproute2);
// elsewhere these tests are skipped.
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <thread>

#include "parl/remote/internal/tcp_test.h"
#include "parl/remote/internal/test_process.h"

namespace parl::internal {
namespace {

constexpr const char* kLearner = "10.98.7.1";

bool shell(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

// The calling thread's network is the learner's, a new one; a worker lives in another, at the other end of a cable.
class Network {
 public:
  // False: this process may not.
  bool open() {
    if (::unshare(CLONE_NEWNET) != 0 || !shell("ip link set lo up")) return false;
    std::promise<int> ready;  // the thread's number
    std::promise<void> done;
    bool is_there = false;
    std::thread there([&] {  // what it starts lives in its network
      is_there = ::unshare(CLONE_NEWNET) == 0;
      ready.set_value(static_cast<int>(::gettid()));
      done.get_future().wait();
      is_there = is_there && shell("ip addr add 10.98.7.2/24 dev worker0 && ip link set worker0 up");
      if (is_there) keep_ = spawn_self({{"--parl-worker", address_, "--slots", "4", "--parl-insecure"}, {}});
    });
    const int tid = ready.get_future().get();
    const bool is_here = shell(fmt::format("ip link add learner0 type veth peer name worker0 netns {}", tid)) &&
                         shell(fmt::format("ip addr add {}/24 dev learner0 && ip link set learner0 up", kLearner));
    if (is_here) {
      Options options = tcp(fmt::format("tcp://{}:0", kLearner));
      options.insecure = true;
      options.create_timeout = 60s;  // a worker whose object does not end at once starts anew
      manager_ = std::make_unique<RemoteManager>(options);
      address_ = manager_->engine();
    }
    done.set_value();
    there.join();
    return is_here && is_there;
  }
  ~Network() {
    if (keep_.pid <= 0) return;
    send_signal(keep_, SIGKILL);
    ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(keep_.pidfd.get()), nullptr, WEXITED);
  }

  RemoteManager& manager() { return *manager_; }
  static void set_link(bool is_up) { shell(fmt::format("ip link set learner0 {}", is_up ? "up" : "down")); }
  static bool slow_down(const std::string& rate) {
    return shell("tc qdisc add dev learner0 root tbf rate " + rate + " burst 32kb latency 50ms");
  }

 private:
  std::string address_;
  std::unique_ptr<RemoteManager> manager_;
  ChildProcess keep_;
};

// Runs `body` with a network of its own, in a process of its own.
void with_network(const std::function<void(Network&, Verdict&)>& body) {
  Forked child([&] {
    Verdict verdict;
    {
      Network network;
      if (!network.open()) return Verdict::kSkipped;
      body(network, verdict);
    }
    return verdict.result();
  });
  const int result = child.wait();
  if (result == Verdict::kSkipped) GTEST_SKIP() << "network namespaces need root and iproute2";
  EXPECT_EQ(result, 0);
}

TEST(RealNetwork, ALinkThatIsDownForAMomentLosesNobody) {
  with_network([](Network& network, Verdict& verdict) {
    auto counter = network.manager().create<Counter>(1);
    verdict.expect(counter->increment() == 2, "a call arrives");
    network.set_link(false);
    auto late = counter.async()->increment();
    verdict.expect(!late.wait_for(kHeartbeat / 4), "nothing arrives while the link is down");
    network.set_link(true);
    verdict.expect(late.get(20s) == 3, "what was sent meanwhile arrives");
    verdict.expect(!counter.lost(), "nobody is lost");
  });
}

TEST(RealNetwork, ALinkThatIsDownForLongLosesTheWorkerAndItComesAgain) {
  with_network([](Network& network, Verdict& verdict) {
    auto counter = network.manager().create<Counter>(1);
    network.set_link(false);
    auto late = counter.async()->increment();
    const double took = seconds_of([&] {
      try {
        late.get(30s);
        verdict.expect(false, "a call over a cut link fails");
      } catch (const RemoteError& error) {
        verdict.expect(error.kind() == RemoteErrorKind::kLost, error.what());
      }
    });
    verdict.expect(took < 10, fmt::format("a cut link is noticed; after {} s", took));
    network.set_link(true);
    verdict.expect(network.manager().create<Counter>(7)->get() == 7, "the worker has dialled again");
  });
}

TEST(RealNetwork, ASlowLinkCarriesLargeArraysAndSmallCalls) {
  with_network([](Network& network, Verdict& verdict) {
    if (!network.slow_down("8mbit")) return verdict.expect(false, "tbf can be set");
    auto values = network.manager().create<Values>();
    auto counter = network.manager().create<Counter>(0);
    Array array(DType::kU8, {2 << 20});  // 2 s of the link's time
    for (int64_t i = 0; i < array.size(); ++i) array.data<uint8_t>()[i] = static_cast<uint8_t>(i * 7 + i / 256);
    auto echo = values.async()->echo_array(array);
    int calls = 0;
    double longest = 0;
    while (!echo.ready()) {
      longest = std::max(longest, seconds_of([&] { counter->increment(); }));
      ++calls;
    }
    verdict.expect(echo.get() == array, "the array arrives as it was");
    verdict.expect(calls >= 2, fmt::format("small calls pass beside it; {}", calls));
    verdict.expect(longest < 1.5, fmt::format("small calls do not wait for it; {:.2f} s", longest));
    verdict.expect(!values.lost() && !counter.lost(), "nobody is lost");
  });
}

// ---- a disk that is full ----

// A small file system at `path`, for this process alone. False: it may not.
bool mount_small_disk(const std::string& path) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("parl-test", path.c_str(), "tmpfs", 0, "size=64k,nr_inodes=16") == 0;
}

int fill_the_disk(const std::string& path, const std::string& engine) {
  if (!mount_small_disk(path)) return Verdict::kSkipped;
  Verdict verdict;
  std::unique_ptr<TestWorker> worker;
  Options options = tcp(engine == "tcp" ? free_tcp_address() : engine);
  options.directory = path + "/objects";
  if (engine == "tcp") worker = std::make_unique<TestWorker>(options.engine, 4);
  RemoteManager manager(options);
  auto talker = manager.create<Trouble>();
  const std::string line(1000, 'x');
  log().set_level(spdlog::level::off);
  const int lines = engine == "process" ? 300 : 0;  // its log is on the disk
  for (int i = 0; i < lines; ++i) talker->print(line);
  std::ofstream(path + "/rest") << std::string(100000, 'x');
  for (int i = 0; i < 20; ++i) std::ofstream(fmt::format("{}/file{}", path, i)) << 'x';  // no inode is left either
  if (lines > 0) talker->print(line);
  verdict.expect(talker->fine() == 1, "an object whose log is full goes on");
  auto newcomer = manager.create<Trouble>();
  try {
    (void)newcomer->where();  // makes its directory
    verdict.expect(false, "there is no room for a directory");
  } catch (const RemoteError& error) {
    const std::string text = error.what();
    verdict.expect(error.kind() == RemoteErrorKind::kThrew, "a method that finds no room has thrown; " + text);
    verdict.expect(text.find("No space left") != std::string::npos, "the error says why; " + text);
    verdict.expect(text.find(path) != std::string::npos, "the error says where; " + text);
  }
  verdict.expect(newcomer->fine() == 1, "the object lives on");
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (entry.is_regular_file()) std::filesystem::remove(entry.path());
  verdict.expect(!newcomer->where().directory.empty(), "with room again there is a directory");
  return verdict.result();
}

class FullDisk : public ::testing::TestWithParam<std::string> {};

TEST_P(FullDisk, ObjectsLiveOnAndErrorsSayWhy) {
  const std::string path = Gate().path() + ".disk";
  std::filesystem::create_directory(path);
  const int result = Forked([&] { return fill_the_disk(path, GetParam()); }).wait();
  std::filesystem::remove(path);
  if (result == Verdict::kSkipped) GTEST_SKIP() << "a mount of one's own needs root";
  EXPECT_EQ(result, 0);
}
INSTANTIATE_TEST_SUITE_P(Engines, FullDisk, ::testing::Values("thread", "process", "tcp"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace parl::internal
