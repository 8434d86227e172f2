// For tests: a TCP proxy in user space that can be made to misbehave like a network.
// Thread rule: its own thread forwards; every method from any thread.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parl/core/check.h"
#include "parl/remote/internal/address.h"

namespace parl::internal {

class TestProxy {
 public:
  enum class Mode {
    kPass,
    kStall,    // what comes is not read: nothing passes, both ends believe in each other
    kSwallow,  // what comes is read and lost: half-open, without an end
    kRefuse,   // new connections are closed at once
  };

  explicit TestProxy(const std::string& target) : target_(parse_address(target)) {
    Address own = parse_address("tcp://127.0.0.1:0");
    listener_ = std::move(listen_on(own).front());
    address_ = own.text();
    thread_ = std::thread([this] { run(); });
  }
  ~TestProxy() {
    stop_ = true;
    thread_.join();
  }
  TestProxy(const TestProxy&) = delete;
  TestProxy& operator=(const TestProxy&) = delete;

  const std::string& address() const { return address_; }
  void set(Mode mode) { mode_ = mode; }
  void set_delay(std::chrono::milliseconds delay) { delay_ms_ = static_cast<int>(delay.count()); }
  // Ends all connections; `reset`: with RST.
  void cut(bool reset = false) { cut_ = reset ? 2 : 1; }
  int accepted() const { return accepted_; }
  uint64_t bytes() const { return bytes_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Parcel {
    Time when;
    std::vector<char> data;
    size_t done = 0;
  };
  struct Way {
    int from, to;
    std::list<Parcel> parcels{};
    bool is_over = false;
  };
  struct Link {
    UniqueFd a, b;
    Way there, back;
  };

  void run() {
    while (!stop_) {
      if (const int how = cut_.exchange(0)) end_all(how == 2);
      std::vector<pollfd> polls{{listener_.get(), POLLIN, 0}};
      ::poll(polls.data(), polls.size(), 1);
      if (polls[0].revents) accept_one();
      for (auto it = links_.begin(); it != links_.end();) {
        const bool lives = mode_ == Mode::kStall || (forward(it->there) && forward(it->back));
        it = lives ? std::next(it) : links_.erase(it);
      }
    }
  }

  void accept_one() {
    UniqueFd a(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!a) return;
    ++accepted_;
    if (mode_ == Mode::kRefuse) return;
    try {
      UniqueFd b = connect_to(target_, std::chrono::steady_clock::now() + std::chrono::seconds(5));
      const int x = a.get(), y = b.get();
      links_.push_back(Link{std::move(a), std::move(b), Way{x, y}, Way{y, x}});
    } catch (const Error&) {  // nobody listens there
    }
  }

  // False: the connection is over.
  bool forward(Way& way) {
    const Time now = std::chrono::steady_clock::now();
    char buffer[65536];
    while (!way.is_over && way.parcels.size() < 64) {
      const ssize_t got = ::recv(way.from, buffer, sizeof buffer, 0);
      if (got < 0) break;
      if (got == 0) way.is_over = true;
      bytes_ += static_cast<uint64_t>(got);
      if (got > 0 && mode_ != Mode::kSwallow)
        way.parcels.push_back({now + std::chrono::milliseconds(delay_ms_.load()), {buffer, buffer + got}});
    }
    while (!way.parcels.empty() && way.parcels.front().when <= now) {
      Parcel& parcel = way.parcels.front();
      const ssize_t sent =
          ::send(way.to, parcel.data.data() + parcel.done, parcel.data.size() - parcel.done, MSG_NOSIGNAL);
      if (sent < 0) return errno == EAGAIN;
      parcel.done += static_cast<size_t>(sent);
      if (parcel.done < parcel.data.size()) break;
      way.parcels.pop_front();
    }
    return mode_ == Mode::kSwallow || !way.is_over || !way.parcels.empty();
  }

  void end_all(bool reset) {
    for (Link& link : links_) {
      const linger hard{1, 0};
      if (!reset) continue;
      ::setsockopt(link.a.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
      ::setsockopt(link.b.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
    links_.clear();
  }

  const Address target_;
  std::string address_;
  UniqueFd listener_;
  std::atomic<Mode> mode_{Mode::kPass};
  std::atomic<int> delay_ms_{0}, cut_{0}, accepted_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<bool> stop_{false};
  std::list<Link> links_;
  std::thread thread_;
};

}  // namespace parl::internal
