// delay_proxy LISTEN_HOST PORT TARGET_HOST PORT MILLISECONDS: passes TCP connections on, each byte so much later.
// For measuring over a link of some length where the kernel has no netem (scripts/bench_tcp_training.sh). IPv4.
// Prints "listening" when it does. One thread; ends with SIGTERM.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <list>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMostWaiting = 64 << 20, kPiece = 256 << 10;

struct Parcel {
  Clock::time_point due;
  std::vector<char> data;
  size_t done = 0;
};

struct Direction {
  int from, to;
  std::deque<Parcel> parcels = {};
  size_t waiting = 0;
  bool ended = false;  // nothing more comes

  // False: broken.
  bool read_some(Clock::duration delay) {
    std::vector<char> data(kPiece);
    const ssize_t n = ::read(from, data.data(), data.size());
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    ended = n == 0;
    data.resize(static_cast<size_t>(n));
    waiting += data.size();
    if (n > 0) parcels.push_back({Clock::now() + delay, std::move(data)});
    return true;
  }
  bool write_some() {
    while (!parcels.empty() && parcels.front().due <= Clock::now()) {
      Parcel& parcel = parcels.front();
      const ssize_t n = ::send(to, parcel.data.data() + parcel.done, parcel.data.size() - parcel.done, MSG_NOSIGNAL);
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      parcel.done += static_cast<size_t>(n);
      waiting -= static_cast<size_t>(n);
      if (parcel.done < parcel.data.size()) return true;
      parcels.pop_front();
    }
    return true;
  }
  bool over() const { return ended && parcels.empty(); }
};

struct Connection {
  Direction up, down;
};

sockaddr_in address_of(const char* host, const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) {
    std::fprintf(stderr, "delay_proxy: '%s' is no IPv4 address\n", host);
    std::exit(2);
  }
  return address;
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void prepare(int fd) {
  const int yes = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: delay_proxy LISTEN_HOST PORT TARGET_HOST PORT MILLISECONDS\n");
    return 2;
  }
  const sockaddr_in own = address_of(argv[1], argv[2]), target = address_of(argv[3], argv[4]);
  const auto delay =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(std::atof(argv[5])));
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0 || ::listen(listener, 64) != 0)
    fail("delay_proxy: listen");
  std::puts("listening");
  std::fflush(stdout);
  std::list<Connection> connections;
  for (;;) {
    std::vector<pollfd> fds = {{listener, POLLIN, 0}};
    int timeout_ms = 1000;
    const auto now = Clock::now();
    for (const Connection& c : connections) {
      for (const Direction* d : {&c.up, &c.down}) {
        const bool due = !d->parcels.empty() && d->parcels.front().due <= now;
        fds.push_back({d->from, static_cast<short>(!d->ended && d->waiting < kMostWaiting ? POLLIN : 0), 0});
        fds.push_back({d->to, static_cast<short>(due ? POLLOUT : 0), 0});
        if (d->parcels.empty() || due) continue;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(d->parcels.front().due - now).count();
        timeout_ms = std::min(timeout_ms, static_cast<int>(std::max<int64_t>(left, 0)));
      }
    }
    if (::poll(fds.data(), fds.size(), timeout_ms) < 0 && errno != EINTR) fail("delay_proxy: poll");
    size_t at = 1;
    for (auto c = connections.begin(); c != connections.end();) {
      bool good = true;
      for (Direction* d : {&c->up, &c->down}) {
        if (fds[at].events & POLLIN && fds[at].revents) good = good && d->read_some(delay);
        good = good && d->write_some();
        at += 2;
      }
      if (good && !c->up.over() && !c->down.over()) {
        ++c;
        continue;
      }
      ::close(c->up.from);
      ::close(c->up.to);
      c = connections.erase(c);
    }
    if (fds[0].revents & POLLIN) {
      const int client = ::accept(listener, nullptr, nullptr), server = ::socket(AF_INET, SOCK_STREAM, 0);
      if (client < 0) continue;
      if (::connect(server, reinterpret_cast<const sockaddr*>(&target), sizeof(target)) != 0) {
        ::close(client);
        ::close(server);
        continue;
      }
      prepare(client);
      prepare(server);
      connections.push_back({{client, server}, {server, client}});
    }
  }
}
