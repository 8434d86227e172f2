// A crowd that means no good, at the port where a worker works: nothing leaks, and the worker does not notice.
#include <sys/socket.h>

#include <atomic>
#include <random>
#include <thread>

#include "parl/remote/internal/auth.h"
#include "parl/remote/internal/mux.h"
#include "parl/remote/internal/tcp_protocol.h"
#include "parl/remote/internal/tcp_test.h"
#include "parl/remote/internal/test_process.h"
#include "parl/remote/internal/tls.h"
#include "parl/remote/keygen.h"

namespace parl::internal {
namespace {

constexpr int kStrangers = 1000, kFew = 100, kAtOnce = 100;

// What a worker says first.
std::string hello_bytes() {
  Writer writer;
  wire::save(writer, make_greeting({}));
  FramePrefix prefix;
  prefix.kind = static_cast<uint8_t>(ControlKind::kHello);
  prefix.head = writer.head().size();
  ChunkHeader chunk;
  chunk.bytes = static_cast<uint32_t>(sizeof prefix + prefix.head);
  std::string out(reinterpret_cast<const char*>(&chunk), sizeof chunk);
  out.append(reinterpret_cast<const char*>(&prefix), sizeof prefix);
  out.append(reinterpret_cast<const char*>(writer.head().data()), writer.head().size());
  return out;
}

class Stranger {
 public:
  enum class Kind { kNoise, kHalfHello, kWholeHello, kSlow, kReset, kHelloThenNoise };
  static constexpr int kKinds = 6;

  Stranger(const Address& address, Kind kind, uint32_t seed)
      : kind_(kind), socket_(connect_to(address, std::chrono::steady_clock::now() + 20s)), random_(seed) {
    const std::string hello = hello_bytes();
    switch (kind) {
      case Kind::kNoise:
        say(noise());
        break;
      case Kind::kHalfHello:
        say(hello.substr(0, random_() % hello.size()));
        break;
      case Kind::kWholeHello:
        say(hello);
        break;
      case Kind::kSlow:
        to_say_ = hello;
        break;
      case Kind::kReset: {
        say(noise());
        const linger at_once{1, 0};
        ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        socket_.reset();
        break;
      }
      case Kind::kHelloThenNoise:
        say(hello + noise());
        break;
    }
  }
  // The slow ones say a byte more.
  void go_on() {
    if (kind_ != Kind::kSlow || said_ == to_say_.size() || !socket_) return;
    say(to_say_.substr(said_++, 1));
  }

 private:
  std::string noise() {
    std::string bytes(1 + random_() % 5000, '\0');
    for (char& c : bytes) c = static_cast<char>(random_());
    return bytes;
  }
  void say(const std::string& bytes) {
    (void)!::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  const Kind kind_;
  UniqueFd socket_;
  std::mt19937 random_;
  std::string to_say_;
  size_t said_ = 0;
};

// Calls one object until it is told to stop; counts.
class Customer {
 public:
  explicit Customer(RemoteManager& manager) : counter_(manager.create<Counter>(0)) {}
  ~Customer() { stop(); }
  void stop() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int64_t pid() { return counter_.pid(); }
  int calls() const { return calls_; }
  int wrong() const { return wrong_; }

 private:
  void work() {
    while (!is_over_) {
      try {
        const int expected = calls_ + 1;
        wrong_ += counter_->increment() == expected ? 0 : 1;
        ++calls_;
      } catch (const RemoteError&) {
        ++wrong_;
        return;
      }
    }
  }
  Remote<Counter> counter_;
  std::atomic<bool> is_over_{false};
  std::atomic<int> calls_{0}, wrong_{0};
  std::thread thread_{[this] { work(); }};
};

void come_and_go(const Address& address, int count) {
  for (int done = 0; done < count; done += kAtOnce) {
    std::vector<Stranger> crowd;
    for (int i = 0; i < kAtOnce; ++i)
      crowd.emplace_back(address, static_cast<Stranger::Kind>((done + i) % Stranger::kKinds),
                         static_cast<uint32_t>(done + i));
    for (int i = 0; i < 20; ++i)
      for (Stranger& stranger : crowd) stranger.go_on();
  }
}

class Strangers : public ::testing::TestWithParam<const char*> {};

TEST_P(Strangers, ACrowdOfThemHarmsNobody) {
  const std::string guard = GetParam(), folder = Gate().path() + "_keys";
  Options options = tcp("tcp://127.0.0.1:0");
  options.handshake_timeout = 300ms;
  std::vector<std::pair<std::string, std::string>> environment;
  std::filesystem::create_directories(folder);
  if (guard == "token") {
    make_token(folder + "/token");
    options.token_file = folder + "/token";
    environment = {{"PARL_TOKEN_FILE", options.token_file}};
  } else if (guard == "tls") {
    make_certificates(folder + "/tls", {"127.0.0.1"});
    options.certificates = folder + "/tls/learner";
    environment = {{"PARL_CERTIFICATES", folder + "/tls/worker"}};
  }
  {
    RemoteManager manager(options);
    const TestWorker worker(manager.engine(), 2, environment);
    Customer customer(manager);
    const Address address = parse_address(manager.engine());
    const auto no_stranger_is_left = [&] { return manager.status().strangers == 0; };
    come_and_go(address, kFew);  // warms up
    ASSERT_TRUE(eventually(no_stranger_is_left, 20s));
    const Holdings before = holdings();
    const int calls_before = customer.calls();
    come_and_go(address, guard == "nothing" ? kStrangers : 3 * kFew);
    ASSERT_TRUE(eventually(no_stranger_is_left, 20s));
    EXPECT_TRUE(eventually([&] { return holdings().descriptors <= before.descriptors; }, 20s));
    EXPECT_EQ(holdings().threads, before.threads);
    if (!kSanitizer) {
      EXPECT_LT(holdings().megabytes, before.megabytes + 8);
    }
    EXPECT_TRUE(eventually([&] { return customer.calls() > calls_before; }, 20s));
    customer.stop();
    EXPECT_EQ(customer.wrong(), 0);
    EXPECT_EQ(customer.pid(), worker.pid());
    const ManagerStatus status = manager.status();
    EXPECT_EQ(status.workers, 1);
    EXPECT_EQ(status.lost, 0u);
    EXPECT_EQ(status.stats.errors, 0u);
  }
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Guards, Strangers, ::testing::Values("nothing", "token", "tls"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace parl::internal
