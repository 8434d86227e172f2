// Many workers on one manager: they register, take calls, give signs of life and leave; what that costs in
// descriptors, memory and time is bounded. And a crowd that is larger than the limit of descriptors.
//
// Manager and crowd are processes of their own with their own limits; a worker is a WorkerSession, all of them on one
// I/O loop, so the crowd is light. In the suite it is 250; a thousand, which takes a while on a busy machine:
//   PARL_CROWD=1000 build/rooms/remote/parl_remote_endurance_test --gtest_filter='Crowd*'
#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parl/core/log.h"
#include "parl/remote/internal/io_loop.h"
#include "parl/remote/internal/tcp_test.h"
#include "parl/remote/internal/tcp_worker.h"
#include "parl/remote/internal/test_process.h"

namespace parl::internal {
namespace {

int crowd_size() {
  const char* text = std::getenv("PARL_CROWD");
  return text ? std::atoi(text) : 250;
}

constexpr int kComers = 200;  // more than the few descriptors allow
constexpr auto kPatience = 60s;

struct Pipe {
  Pipe() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
    in.reset(fds[0]);
    out.reset(fds[1]);
  }
  UniqueFd in, out;
};

std::string read_word(int fd) {
  std::string word;
  for (char c = 0; ::read(fd, &c, 1) == 1 && c != '\n';) word += c;
  return word;
}
void write_word(int fd, const std::string& word) {
  const std::string line = word + "\n";
  (void)!::write(fd, line.data(), line.size());
}

std::shared_ptr<WorkerSession> join(IoLoop& loop, const Address& address) {
  const auto patience = std::chrono::steady_clock::now() + kPatience;
  static const WorkerSettings settings{"unix:/crowd", 1};
  auto session = std::make_shared<WorkerSession>(Security{}, settings, nullptr, nullptr);
  const auto connection = Connection::start(loop, make_plain_transport(connect_to(address, patience)), session);
  if (session->wait_welcome(patience)) return session;
  connection->end("no welcome");
  session->wait_end();
  return nullptr;
}

// `count` workers come, some perhaps in vain. When `leave` says a word half of them go; the others stay until the
// learner ends. The result is 0 when that was its wish.
int be_a_crowd(int count, int address_pipe, int leave_pipe) {
  raise_descriptor_limit();
  const Address address = parse_address(read_word(address_pipe));
  IoLoop loop;
  std::vector<std::shared_ptr<WorkerSession>> sessions;
  for (int i = 0; i < count; ++i) {
    if (auto session = join(loop, address)) sessions.push_back(std::move(session));
  }
  if (!read_word(leave_pipe).empty()) {
    for (size_t i = 0; i < sessions.size() / 2; ++i) {
      sessions[i]->bye("half of the crowd goes");
      sessions[i]->wait_end();
    }
  }
  Verdict verdict;
  for (const auto& session : sessions) {
    session->wait_end();
    const std::string why = session->why();
    verdict.expect(why.find("goodbye") != std::string::npos, "a session ends with a goodbye: " + why);
    verdict.expect(session->end_objects(std::chrono::steady_clock::now() + kPatience), "its objects end");
  }
  return verdict.result();
}

// Seconds of processor time of this process.
double processor_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double idle_share(std::chrono::milliseconds time) {
  const double before = processor_seconds();
  return seconds_of([&] { std::this_thread::sleep_for(time); }) > 0
             ? (processor_seconds() - before) / std::chrono::duration<double>(time).count()
             : 0;
}

void limit_descriptors(rlim_t most) {
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int serve_a_crowd(int address_pipe, int leave_pipe) {
  const int crowd = crowd_size();
  limit_descriptors(5000);
  Verdict verdict;
  Options options = tcp("tcp://127.0.0.1:0");
  options.heartbeat_timeout = 4s;  // a sign of life each second from each
  options.create_timeout = kPatience;
  RemoteManager manager(options);
  const Holdings before = holdings();
  write_word(address_pipe, manager.engine());
  const double took = seconds_of([&] {
    verdict.expect(eventually([&] { return manager.slots().total == crowd; }, kPatience), "all workers are there");
  });
  const Holdings there = holdings();
  const size_t each = (there.descriptors - before.descriptors) / static_cast<size_t>(crowd);
  const double kilobytes = (there.megabytes - before.megabytes) * 1000 / crowd;
  verdict.expect(each <= 4, fmt::format("at most 4 descriptors a worker; {}", each));
  verdict.expect(kSanitizer || kilobytes < 100, fmt::format("less than 100 kB a worker; {:.1f}", kilobytes));
  const double share = idle_share(5s);  // longer than the heartbeat's timeout: nobody is lost by being idle
  verdict.expect(manager.slots().total == crowd, "all workers are still there");
  verdict.expect(share < 0.02, fmt::format("an idle manager needs less than 2 % of a core; {:.2f} %", 100 * share));
  double calls_took = 0;
  {
    auto counters = manager.create_all<Counter>(crowd, 5);
    calls_took = seconds_of([&] {
      auto futures = broadcast(counters, &Counter::increment);
      for (auto& future : futures) verdict.expect(future.get(kPatience) == 6, "a worker answers");
    });
  }
  verdict.expect(eventually([&] { return manager.slots().used == 0; }, kPatience), "all objects are gone");
  write_word(leave_pipe, "go");
  verdict.expect(eventually([&] { return manager.slots().total == crowd / 2; }, kPatience), "half have left");
  verdict.expect(holdings().descriptors - before.descriptors <= each * static_cast<size_t>(crowd) / 2 + 4,
                 "those that left took their descriptors");
  std::printf("%d workers in %.1f s: %zu descriptors and %.1f kB each; idle %.2f %% of a core; a call to all %.0f ms\n",
              crowd, took, each, kilobytes, 100 * share, 1000 * calls_took);
  std::fflush(stdout);
  return verdict.result();
}

TEST(Crowd, ComesWorksAndLeaves) {
  const Pipe address, leave;
  Forked crowd([&] { return be_a_crowd(crowd_size(), address.in.get(), leave.in.get()); });
  Forked manager([&] { return serve_a_crowd(address.out.get(), leave.out.get()); });
  EXPECT_EQ(manager.wait(), 0);
  for (const Pipe* pipe : {&address, &leave}) write_word(pipe->out.get(), "");  // if it could not
  EXPECT_EQ(crowd.wait(), 0);
}

// Of descriptors below `limit`; looking takes none.
size_t open_below(rlim_t limit) {
  size_t count = 0;
  for (rlim_t fd = 0; fd < limit; ++fd) count += ::fcntl(static_cast<int>(fd), F_GETFD) != -1;
  return count;
}

int serve_more_than_fit(int address_pipe, int leave_pipe, const std::string& log_path) {
  constexpr rlim_t kLimit = 128;
  limit_descriptors(kLimit);
  log_to_file(log_path);
  Verdict verdict;
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  write_word(address_pipe, manager.engine());
  verdict.expect(eventually([&] { return open_below(kLimit) + 5 >= kLimit; }, kPatience),
                 "the descriptors are used up");
  const int there = manager.slots().total;
  verdict.expect(there > 80 && there < kComers, fmt::format("most of what fits is there; {}", there));
  auto counters = manager.create_all<Counter>(there / 2, 5);
  for (auto& counter : counters) verdict.expect(counter->increment() == 6, "a worker answers when others find no room");
  counters.clear();
  write_word(leave_pipe, "go");
  verdict.expect(eventually([&] { return manager.slots().total <= static_cast<int>(kLimit) / 2; }, kPatience),
                 "half have left");
  const auto is_served = [&] {
    try {
      return manager.create<Counter>(1)->increment() == 2;
    } catch (const RemoteError&) {  // by one that was just leaving
      return false;
    }
  };
  verdict.expect(eventually(is_served, kPatience), "service goes on");
  std::printf("with %lu descriptors: %d of %d workers\n", static_cast<unsigned long>(kLimit), there, kComers);
  std::fflush(stdout);
  return verdict.result();
}

TEST(Crowd, MoreThanTheDescriptorsAllow) {
  if (kAddressSanitizer) GTEST_SKIP() << "the check of object types fails where there is no descriptor for it";
  const Pipe address, leave;
  const TemporaryFile log("");
  Forked crowd([&] { return be_a_crowd(kComers, address.in.get(), leave.in.get()); });
  Forked manager([&] { return serve_more_than_fit(address.out.get(), leave.out.get(), log.path); });
  EXPECT_EQ(manager.wait(), 0);
  for (const Pipe* pipe : {&address, &leave}) write_word(pipe->out.get(), "");  // if it could not
  EXPECT_EQ(crowd.wait(), 0);
  EXPECT_THAT(read_file(log.path), HasSubstr("the limit of 128 open descriptors is reached"));
}

}  // namespace
}  // namespace parl::internal
