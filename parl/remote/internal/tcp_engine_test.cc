// What only the tcp engine can do: workers that come and go, objects that dial in, who may talk to whom. Faults:
// tcp_faults_test.cc. What every engine promises: conformance.h.
#include "parl/remote/internal/tcp_engine.h"

#include <poll.h>
#include <signal.h>

#include <filesystem>
#include <thread>

#include "parl/remote/internal/auth.h"
#include "parl/remote/internal/mux.h"
#include "parl/remote/internal/tcp_test.h"

namespace tcp_test_here {
class Twin {
 public:
  int value() { return 1; }
};
PARL_REMOTE_CLASS_AS("tcp_test.Twin", Twin, value);

class Signals {
 public:
  bool is_blocked(int number) {
    sigset_t blocked;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return ::sigismember(&blocked, number) == 1;
  }
};
PARL_REMOTE_CLASS(Signals, is_blocked);

// Its thread waits at its very end.
class Lingering {
 public:
  bool linger(const std::string& gate) {
    struct AtTheEnd {
      ~AtTheEnd() {
        if (!gate.empty()) parl::conformance::Gate::wait(gate);
      }
      std::string gate;
    };
    static thread_local AtTheEnd at_the_end;
    at_the_end.gate = gate;
    return true;
  }
};
PARL_REMOTE_CLASS(Lingering, linger);
}  // namespace tcp_test_here

namespace tcp_test_there {
class Twin {
 public:
  double value() { return 1; }
};
PARL_REMOTE_CLASS_AS("tcp_test.Twin", Twin, value);
}  // namespace tcp_test_there

namespace parl::internal {
namespace {

// ---- addresses ----

TEST(TcpAddress, EveryWayToWriteOne) {
  EXPECT_EQ(parse_address("tcp://learner:8037").text(), "tcp://learner:8037");
  EXPECT_EQ(parse_address("learner:8037").text(), "tcp://learner:8037");
  EXPECT_EQ(parse_address("tcp://[::1]:80").text(), "tcp://[::1]:80");
  EXPECT_EQ(parse_address("unix:/tmp/x").text(), "unix:/tmp/x");
  EXPECT_EQ(parse_address("tcp://unix:/tmp/x").text(), "unix:/tmp/x");
  for (const char* wrong :
       {"", "host", "host:", ":80", "host:port", "host:80000", "host:-1", "::1:80", "unix:", "[]:1"})
    EXPECT_THROW(parse_address(wrong), Error) << wrong;
}

TEST(TcpAddress, ANameWithOneAddressListensOnce) {
  Address number = parse_address("tcp://127.0.0.1:0"), name = parse_address("tcp://localhost:0");
  EXPECT_EQ(listen_on(number).size(), 1u);
  const auto sockets = listen_on(name);
  EXPECT_GE(sockets.size(), 1u);
  EXPECT_LE(sockets.size(), 2u) << "IPv4 and IPv6";
  EXPECT_TRUE(connect_to(name, std::chrono::steady_clock::now() + 5s));
}

TEST(TcpAddress, WhatWasAnsweredIsNotUnanswered) {
  Address address = parse_address("tcp://127.0.0.1:0");
  const auto listening = listen_on(address);
  const UniqueFd socket = connect_to(address, std::chrono::steady_clock::now() + 5s);
  ASSERT_EQ(::send(socket.get(), "a", 1, MSG_NOSIGNAL), 1);
  EXPECT_FALSE(is_unanswered(socket.get(), 1min));
  EXPECT_FALSE(is_unanswered(-1, 1min));
}

TEST(TcpAddress, WhatIsLocal) {
  for (const char* local : {"127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "localhost:1", "unix:/x"})
    EXPECT_TRUE(is_local(parse_address(local))) << local;
  for (const char* open : {"0.0.0.0:1", "[::]:1", "10.1.2.3:1"}) EXPECT_FALSE(is_local(parse_address(open))) << open;
}

// ---- coming and going ----

TEST(Tcp, EveryKindOfAddress) {
  const std::string path = Gate().path() + ".socket";
  for (const std::string& where : {std::string("tcp://127.0.0.1:0"), std::string("tcp://[::1]:0"),
                                   std::string("tcp://localhost:0"), "unix:" + path}) {
    std::unique_ptr<RemoteManager> manager;
    try {
      manager = std::make_unique<RemoteManager>(tcp(where));
    } catch (const Error& error) {
      EXPECT_THAT(where, HasSubstr("::1")) << error.what();  // IPv6 may be switched off
      continue;
    }
    EXPECT_THAT(manager->engine(), Not(::testing::EndsWith(":0")));
    const TestWorker worker(manager->engine(), 1);
    auto counter = manager->create<Counter>(4);
    EXPECT_EQ(counter->increment(), 5) << where;
    EXPECT_EQ(counter.pid(), worker.pid());
  }
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "the socket's file is left behind";
}

TEST(Tcp, ManyObjectsOnOneConnection) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  const TestWorker worker(manager.engine(), 12);
  auto counters = manager.create_all<Counter>(12, 3);
  for (auto& counter : counters) {
    EXPECT_EQ(counter.pid(), worker.pid());
    EXPECT_EQ(counter->increment(), 4);
  }
  EXPECT_EQ(manager.slots().total, 12);
  EXPECT_EQ(manager.slots().vacant, 0);
  const auto error =
      expect_remote_error(RemoteErrorKind::kRefused, [&] { manager.create<Counter>(Place{.timeout = 50ms}); });
  EXPECT_THAT(error.message(), HasSubstr("12 of 12 slots are in use"));
}

TEST(Tcp, ObjectsSpreadOverWorkers) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  const TestWorker one(manager.engine(), 4), two(manager.engine(), 4);
  ASSERT_TRUE(eventually([&] { return manager.slots().total == 8; }, 20s));
  auto counters = manager.create_all<Counter>(4);
  std::map<int64_t, int> on;
  for (auto& counter : counters) ++on[counter.pid()];
  EXPECT_EQ(on.size(), 2u);
}

TEST(Tcp, ObjectsMayBeSignalled) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  const TestWorker worker(manager.engine(), 1);
  auto signals = manager.create<tcp_test_here::Signals>();
  EXPECT_FALSE(signals->is_blocked(SIGTERM));
  EXPECT_FALSE(signals->is_blocked(SIGCHLD)) << "what a method starts would inherit it";
}

TEST(Tcp, ALearnersDirectoryIsNotMadeElsewhere) {
  const std::string directory = Gate().path() + "_objects";
  Options options = tcp("tcp://127.0.0.1:0");
  options.directory = directory;
  RemoteManager manager(options);
  const TestWorker worker(manager.engine(), 2);
  const auto is_there = [](const std::string& path) { return ::access(path.c_str(), F_OK) == 0; };
  EXPECT_THAT(manager.create<Trouble>()->where().directory, ::testing::StartsWith(directory)) << "the same machine";
  std::filesystem::remove_all(directory);  // as if the worker were on another machine
  auto one = manager.create<Trouble>(), two = manager.create<Trouble>();
  const std::string own = one->where().directory, other = two->where().directory;
  EXPECT_TRUE(is_there(own));
  EXPECT_TRUE(is_there(other));
  EXPECT_NE(own, other);
  EXPECT_FALSE(is_there(directory));
  one.reset();
  EXPECT_TRUE(eventually([&] { return !is_there(own); }));
  EXPECT_TRUE(is_there(other));
  two.reset();
  EXPECT_TRUE(eventually([&] { return !is_there(std::filesystem::path(other).parent_path()); }));
}

TEST(Tcp, AThreadThatLingersHoldsUpNobody) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  const TestWorker worker(manager.engine(), 1);
  const Gate go;
  {
    auto lingering = manager.create<tcp_test_here::Lingering>();
    EXPECT_TRUE(lingering->linger(go.path()));
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(manager.create<Counter>(i)->get(), i);
  go.open();
}

TEST(Tcp, AWorkerWithTooManySlotsSaysSo) {
  TestWorker worker(free_tcp_address(), 5000);
  worker.wait_end();
  EXPECT_THAT(worker.output(), HasSubstr("5000 slots"));
}

TEST(Tcp, WorkersStartFirstAndFindTheNextLearner) {
  const std::string address = free_tcp_address();
  const TestWorker worker(address, 2);
  for (int round = 0; round < 3; ++round) {
    RemoteManager manager(tcp(address));
    auto counter = manager.create<Counter>(round);
    EXPECT_EQ(counter->get(), round);
    EXPECT_EQ(counter.pid(), worker.pid());
  }
}

TEST(Tcp, NoWorkerIsSaidWithWhatToDo) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  const auto error =
      expect_remote_error(RemoteErrorKind::kRefused, [&] { manager.create<Counter>(Place{.timeout = 20ms}); });
  EXPECT_THAT(error.message(), HasSubstr("--parl-worker " + manager.engine()));
}

// ---- objects that dial in ----

TEST(Tcp, AsRemoteAndGetRemote) {
  const std::string address = free_tcp_address();
  auto offered = offer_object(Counter(41), address);  // before the learner is there
  RemoteManager manager(tcp(address));
  {
    auto counter = manager.get_remote<Counter>();
    EXPECT_EQ(counter->increment(), 42);
    EXPECT_EQ(counter->sum(2, 3), 5);
    EXPECT_EQ(counter.name(), "Counter#0");
    EXPECT_EQ(offered.wait_for(0s), std::future_status::timeout);
  }
  EXPECT_EQ(offered.get(), "returned");
}

TEST(Tcp, EachOfferedObjectIsGivenOutOnce) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  auto one = offer_object(Counter(1), manager.engine());
  auto first = manager.get_remote<Counter>();
  auto two = offer_object(Counter(2), manager.engine());
  auto second = manager.get_remote<Counter>();
  EXPECT_EQ(first->get(), 1);
  EXPECT_EQ(second->get(), 2);
  const auto error =
      expect_remote_error(RemoteErrorKind::kRefused, [&] { manager.get_remote<Counter>(Place{.timeout = 50ms}); });
  EXPECT_THAT(error.message(), HasSubstr("no Counter has dialled in"));
  first.reset();
  EXPECT_EQ(one.get(), "returned");
  manager.close(5s);
  EXPECT_EQ(two.get(), "returned");
}

TEST(Tcp, AnObjectKeepsItsStateWhenItsLearnerDies) {
  const std::string address = free_tcp_address();
  const TestProxy proxy(address);  // dies instead of the learner
  auto offered = offer_object(Counter(5), proxy.address());
  RemoteManager manager(tcp(address));
  auto counter = manager.get_remote<Counter>();
  EXPECT_EQ(counter->increment(), 6);
  const_cast<TestProxy&>(proxy).cut();
  ASSERT_TRUE(eventually([&] { return counter.lost(); }));
  expect_remote_error(RemoteErrorKind::kLost, [&] { counter->get(); });
  auto again = manager.get_remote<Counter>();
  EXPECT_EQ(again->get(), 6);
  again.reset();
  EXPECT_EQ(offered.get(), "returned");
}

TEST(Tcp, AnObjectThatIsNotTakenInTimeDialsAgain) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  TestProxy proxy(manager.engine());
  auto offered = offer_object(Counter(5), proxy.address());
  ASSERT_TRUE(eventually([&] {
    const auto error = expect_remote_error(RemoteErrorKind::kRefused,
                                           [&] { manager.get_remote<tcp_test_here::Twin>(Place{.timeout = 1ms}); });
    return error.message().find("(1 objects") != std::string::npos;
  }));
  proxy.set(TestProxy::Mode::kStall);
  expect_remote_error(RemoteErrorKind::kTimeout, [&] { manager.get_remote<Counter>(Place{.timeout = 50ms}); });
  proxy.set(TestProxy::Mode::kPass);
  auto counter = manager.get_remote<Counter>();
  EXPECT_EQ(counter->get(), 5);
  counter.reset();
  EXPECT_EQ(offered.get(), "returned");
}

TEST(Tcp, NoLearnerInTimeIsAnError) {
  auto offered = offer_object(Counter(5), free_tcp_address(), 30ms);
  EXPECT_THAT(offered.get(), HasSubstr("no learner"));
}

TEST(Tcp, AClassThatDiffersIsNotTaken) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  auto offered = offer_object(tcp_test_there::Twin(), manager.engine());
  const auto error = expect_remote_error(RemoteErrorKind::kRefused,
                                         [&] { manager.get_remote<tcp_test_here::Twin>(Place{.timeout = 1s}); });
  EXPECT_THAT(error.message(), HasSubstr("value()->f8"));
  EXPECT_THAT(error.message(), HasSubstr("value()->i4"));
  EXPECT_EQ(manager.get_remote<tcp_test_there::Twin>()->value(), 1.0);
  EXPECT_EQ(offered.get(), "returned");
}

TEST(Tcp, OtherEnginesHaveNoObjectsThatDialIn) {
  RemoteManager manager("thread");
  expect_remote_error(RemoteErrorKind::kRefused, [&] { manager.get_remote<Counter>(); });
}

// ---- strangers ----

// A peer made by hand.
struct RawPeer {
  // Comes as a worker does that offers this.
  void offer(const WorkerOffer& offer) {
    Frame frame;
    send(ControlKind::kHello, make_greeting({}));
    ASSERT_TRUE(receive(frame));
    send(ControlKind::kProof, Proof());
    ASSERT_TRUE(receive(frame));
    ASSERT_EQ(frame.kind, static_cast<uint8_t>(ControlKind::kWelcome));
    send(ControlKind::kOffer, offer);
  }
  template <typename T>
  void send(ControlKind kind, const T& message) {
    Writer writer;
    wire::save(writer, message);
    send(kind, writer);
  }
  explicit RawPeer(const std::string& address)
      : transport(make_plain_transport(connect_to(parse_address(address), std::chrono::steady_clock::now() + 5s))) {}
  void send(ControlKind kind, const Writer& writer) {
    OutgoingFrame frame;
    frame.prefix.kind = static_cast<uint8_t>(kind);
    frame.head = writer.head();
    frame.prefix.head = frame.head.size();
    sender.send(*transport, 0, std::move(frame));
  }
  // False: the learner has closed.
  bool receive(Frame& frame, std::chrono::milliseconds limit = 10s) {
    const auto end = std::chrono::steady_clock::now() + limit;
    uint32_t object = 0;
    for (;;) {
      const auto got = reader.next(*transport, object, frame);
      if (got == MuxReader::Got::kFrame) return true;
      if (got == MuxReader::Got::kClosed) return false;
      pollfd poll{transport->fd(), POLLIN, 0};
      ::poll(&poll, 1, 50);
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "the learner says nothing";
        return false;
      }
    }
  }
  std::unique_ptr<Transport> transport;
  MuxSender sender;
  MuxReader reader{{}, 10};
};

TEST(Tcp, AnotherProtocolIsRefusedInWords) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  RawPeer peer(manager.engine());
  Greeting greeting = make_greeting({});
  greeting.protocol = 99;
  Writer writer;
  wire::save(writer, greeting);
  peer.send(ControlKind::kHello, writer);
  Frame frame;
  ASSERT_TRUE(peer.receive(frame));
  ASSERT_EQ(frame.kind, static_cast<uint8_t>(ControlKind::kRefuse));
  Reader reader = frame.reader();
  EXPECT_THAT(wire::load<Bye>(reader).why, HasSubstr("protocol 99"));
  EXPECT_FALSE(peer.receive(frame)) << "and is cut off";
  const auto error =
      expect_remote_error(RemoteErrorKind::kRefused, [&] { manager.create<Counter>(Place{.timeout = 20ms}); });
  EXPECT_THAT(error.message(), HasSubstr("protocol 99"));
}

TEST(Tcp, AWorkerThatLacksTheConstructorIsNotChosen) {
  Options options = tcp("tcp://127.0.0.1:0");
  options.heartbeat_timeout = 60s;  // the one made by hand gives no sign of life
  RemoteManager manager(options);
  RawPeer peer(manager.engine());
  const ClassInfo& info = class_info<Counter>();
  peer.offer({100, false, {{info.name, fingerprint(info), {"(f8)"}}}, {}, {}});
  ASSERT_TRUE(eventually([&] { return manager.slots().total == 100; }));
  const auto error =
      expect_remote_error(RemoteErrorKind::kRefused, [&] { manager.create<Counter>(Place{.timeout = 20ms}, 7); });
  EXPECT_THAT(error.message(), HasSubstr("cannot build Counter(i4)"));
  EXPECT_THAT(error.message(), HasSubstr("it offers: Counter(f8)"));
  const TestWorker worker(manager.engine(), 1);
  EXPECT_EQ(manager.create<Counter>(7).pid(), worker.pid());
}

TEST(Tcp, StrangersAreCutOffAndServiceGoesOn) {
  Options options = tcp("tcp://127.0.0.1:0");
  options.handshake_timeout = 300ms;
  RemoteManager manager(options);
  const auto is_cut_off = [&](const std::string& bytes) {
    RawPeer peer(manager.engine());
    ::send(peer.transport->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    Frame frame;
    return !peer.receive(frame);
  };
  EXPECT_TRUE(is_cut_off("")) << "silent";
  EXPECT_TRUE(is_cut_off("GET / HTTP/1.1\r\nHost: learner\r\n\r\n"));
  EXPECT_TRUE(is_cut_off(std::string(100000, '\xff')));
  ChunkHeader header;
  header.bytes = 32;
  FramePrefix prefix;
  prefix.head = uint64_t{1} << 40;  // says that much is coming
  std::string large(reinterpret_cast<const char*>(&header), sizeof header);
  large.append(reinterpret_cast<const char*>(&prefix), sizeof prefix);
  EXPECT_TRUE(is_cut_off(large));
  const TestWorker worker(manager.engine(), 1);
  EXPECT_EQ(manager.create<Counter>(3)->get(), 3);
}

TEST(Tcp, SilentStrangersKeepNobodyOut) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));  // which lets each of them be silent for 10 s
  const Address address = parse_address(manager.engine());
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(connect_to(address, std::chrono::steady_clock::now() + 5s));
  const double took = seconds_of([&] {
    auto offered = offer_object(Counter(3), manager.engine());
    EXPECT_EQ(manager.get_remote<Counter>()->get(), 3);
    EXPECT_EQ(offered.get(), "returned");
  });
  EXPECT_LT(took, 8);
}

TEST(Tcp, ASecondLearnerOnThePortIsAnErrorThatSaysSo) {
  RemoteManager first(tcp("tcp://127.0.0.1:0"));
  try {
    RemoteManager second(tcp(first.engine()));
    FAIL() << "both listen";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("another learner"));
  }
  const size_t port = first.engine().rfind(':');  // a name whose other addresses may be free
  EXPECT_THROW(RemoteManager named(tcp("tcp://localhost" + first.engine().substr(port))), Error);
  const std::string path = "unix:" + Gate().path() + ".socket";
  RemoteManager third(tcp(path));
  EXPECT_THROW(RemoteManager fourth(tcp(path)), Error);
}

TEST(Tcp, BeyondThisMachineOnlyWithAGuard) {
  try {
    RemoteManager manager(tcp("tcp://0.0.0.0:0"));
    FAIL() << "it is open to everybody";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("PARL_TOKEN_FILE"));
  }
  const TemporaryFile token("0123456789abcdef0123456789abcdef\n");
  Options options = tcp("tcp://0.0.0.0:0");
  options.token_file = token.path;
  RemoteManager guarded(options);
  options.token_file.clear();
  options.insecure = true;
  RemoteManager open(options);
}

TEST(Tcp, TheTokenOpensAndNothingElseDoes) {
  const TemporaryFile token("the-right-token-0123456789\n"), other("the-wrong-token-0123456789\n"), log("");
  log_to_file(log.path);
  {
    Options options = tcp("tcp://127.0.0.1:0");
    options.token_file = token.path;
    RemoteManager manager(options);
    TestWorker none(manager.engine(), 1), wrong(manager.engine(), 1, {{"PARL_TOKEN_FILE", other.path}});
    const auto error =
        expect_remote_error(RemoteErrorKind::kRefused, [&] { manager.create<Counter>(Place{.timeout = 2s}); });
    EXPECT_THAT(error.message(), HasSubstr("token"));
    TestWorker right(manager.engine(), 1, {{"PARL_TOKEN_FILE", token.path}});
    auto counter = manager.create<Counter>(1);
    EXPECT_EQ(counter.pid(), right.pid());
    EXPECT_EQ(counter->get(), 1);
    EXPECT_TRUE(eventually([&] { return none.output().find("PARL_TOKEN_FILE") != std::string::npos; }));
    for (TestWorker* worker : {&none, &wrong, &right}) EXPECT_THAT(worker->output(), Not(HasSubstr("-token-0123")));
  }
  stop_log_file();
  EXPECT_THAT(read_file(log.path), Not(HasSubstr("-token-0123")));
}

TEST(Tcp, AWorkerWithATokenWantsToSeeTheLearners) {
  const TemporaryFile token("the-right-token-0123456789\n");
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  TestWorker careful(manager.engine(), 1, {{"PARL_TOKEN_FILE", token.path}});
  expect_remote_error(RemoteErrorKind::kRefused, [&] { manager.create<Counter>(Place{.timeout = 1s}); });
  EXPECT_TRUE(eventually([&] { return careful.output().find("the learner has none") != std::string::npos; }));
}

TEST(Tcp, ProofsDifferBySideNonceAndChannel) {
  Security security;
  security.token = "0123456789abcdef";
  const Greeting a = make_greeting(security), b = make_greeting(security);
  const std::string mac = prove(security, Side::kWorker, a, b, "channel");
  EXPECT_TRUE(is_proved(security, Side::kWorker, a, b, "channel", mac));
  EXPECT_FALSE(is_proved(security, Side::kLearner, a, b, "channel", mac));
  EXPECT_FALSE(is_proved(security, Side::kObserver, a, b, "channel", mac));
  EXPECT_FALSE(is_proved(security, Side::kWorker, b, a, "channel", mac));
  EXPECT_FALSE(is_proved(security, Side::kWorker, a, make_greeting(security), "channel", mac));
  EXPECT_FALSE(is_proved(security, Side::kWorker, a, b, "channel", ""));
  EXPECT_FALSE(is_proved(security, Side::kWorker, a, b, "another", mac));
  EXPECT_FALSE(is_proved(security, Side::kWorker, a, b, "", mac));
}

}  // namespace
}  // namespace parl::internal
