#include "parl/train/learner_group.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "parl/core/clock.h"
#include "parl/core/log.h"
#include "parl/core/process.h"

#ifdef PARL_WITH_C10D
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#ifdef USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif
#endif

namespace parl {

#ifdef PARL_WITH_C10D

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAskEvery{100};
constexpr milliseconds kTellWithin{2000};  // how long survivors wait to hear from one another

milliseconds to_ms(double seconds) { return milliseconds(static_cast<int64_t>(seconds * 1000)); }

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  std::string numeric() const {
    char text[NI_MAXHOST] = {};
    getnameinfo(get(), length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
    return text;
  }
};

Address resolve(const std::string& host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  PARL_CHECK(failed == 0, "--learner-address: '{}' cannot be resolved: {}", host, gai_strerror(failed));
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

// A listening socket at that very address, not at every one that this machine has.
int listen_at(const std::string& host, int port, int& chosen) {
  const Address address = resolve(host, port);
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  if (fd >= 0) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  Address bound;
  bound.length = sizeof(bound.storage);
  if (fd < 0 || ::bind(fd, address.get(), address.length) != 0 || ::listen(fd, 128) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0) {
    const int code = errno;
    if (fd >= 0) ::close(fd);
    raise(
        "learner 0 cannot listen at {}:{}: {} (--learner-address names an address of the machine where learner 0 runs)",
        host, port, std::strerror(code));
  }
  chosen = ntohs(bound.family() == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound.storage)->sin6_port
                                            : reinterpret_cast<sockaddr_in*>(&bound.storage)->sin_port);
  return fd;
}

// This machine's address on the way to learner 0.
std::string own_address(const std::string& host, int port) {
  const Address address = resolve(host, port);
  const int fd = ::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  Address mine;
  mine.length = sizeof(mine.storage);
  const bool found = fd >= 0 && ::connect(fd, address.get(), address.length) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&mine.storage), &mine.length) == 0;
  const int code = errno;
  if (fd >= 0) ::close(fd);
  PARL_CHECK(found, "no way leads to learner 0 at {}:{}: {}", host, port, std::strerror(code));
  return mine.numeric();
}

// c10d's sockets raise it when the other side is gone, and the whole program would end of it.
void no_sigpipe() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) ::signal(SIGPIPE, SIG_IGN);
}

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

struct LearnerGroup::Impl {
  Options options;
  int port = 0, listener = -1;
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::Backend> gloo, nccl;
  std::vector<std::string> names;
  bool broken = false;

  static std::string key(const char* what, int rank) { return fmt::format("{}/{}", what, rank); }

  void open_store() {
    no_sigpipe();
    c10d::TCPStoreOptions store_options;
    store_options.port = static_cast<uint16_t>(port);
    store_options.isServer = listener >= 0;
    store_options.waitWorkers = false;
    store_options.timeout = to_ms(options.timeout);
    store_options.useLibUV = false;  // the one that takes over a socket which is bound already
    if (listener >= 0) store_options.masterListenFd = std::exchange(listener, -1);
    // A group that torchrun starts once more finds the keys of the one before.
    const char* attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
    store = c10::make_intrusive<c10d::PrefixStore>(fmt::format("parl-{}", attempt ? attempt : "0"),
                                                   c10::make_intrusive<c10d::TCPStore>(options.host, store_options));
  }

  // Until all have said that they are there.
  void meet(const std::function<void()>& meanwhile) {
    store->set(key("here", options.rank), bytes_of(fmt::format("host {}, pid {}", this_host(), ::getpid())));
    const auto start = Clock::now();
    for (int r = 0; r < options.size; ++r) {
      while (!store->check({key("here", r)})) {
        if (meanwhile) meanwhile();
        PARL_CHECK(seconds_since(start) < options.timeout,
                   "learner {} of {} has not come within {:.0f} s (--learner-timeout)", r, options.size,
                   options.timeout);
        std::this_thread::sleep_for(kAskEvery);
      }
      const std::vector<uint8_t> name = store->get(key("here", r));
      names.emplace_back(name.begin(), name.end());
    }
  }

  void connect() {
    auto gloo_options = c10d::ProcessGroupGloo::Options::create(to_ms(options.timeout));
    gloo_options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname(own_address(options.host, port), false)};
    gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, options.rank, options.size, gloo_options);
    if (!options.device.starts_with("cuda")) return;
#ifdef USE_C10D_NCCL
    ::setenv("TORCH_NCCL_BLOCKING_WAIT", "1", 0);  // else a peer that is gone is noticed by nobody
    auto nccl_options = c10d::ProcessGroupNCCL::Options::create();
    nccl_options->timeout = to_ms(options.timeout);
    nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, options.rank, options.size, nccl_options);
#else
    log().info("this libtorch has no NCCL: gradients go from GPU to GPU through main memory (Gloo)");
#endif
  }

  // Who does not speak any more, and what those that left said. Asks the store, which closes with learner 0.
  std::string who() {
    std::vector<int> silent;
    std::string reasons;
    try {
      store->set(key("alive", options.rank), bytes_of("1"));
      const auto start = Clock::now();
      do {
        silent.clear();
        for (int r = 0; r < options.size; ++r) {
          if (store->check({key("left", r)})) {
            const std::vector<uint8_t> reason = store->get(key("left", r));
            store->add("told", 1);
            return fmt::format("learner {} ended: {}", r, std::string(reason.begin(), reason.end()));
          }
          if (!store->check({key("alive", r)})) silent.push_back(r);
        }
        if (silent.empty()) return "the connection to another learner broke";
        std::this_thread::sleep_for(kAskEvery);
      } while (Clock::now() - start < kTellWithin);
    } catch (const std::exception&) {
      silent = {0};
    }
    std::string text;
    for (const int r : silent)
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", r, names.at(static_cast<size_t>(r)));
    return fmt::format("learner {} is gone", text);
  }

  // A call of c10d, whose errors are others' absence.
  template <typename F>
  void together(F&& call) {
    PARL_CHECK(gloo && !broken, "this learner is not in a group (any more)");
    const auto start = Clock::now();
    try {
      c10::intrusive_ptr<c10d::Work> work = call();
      work->wait();
    } catch (const std::exception& error) {
      broken = true;
      // After a time-out nobody is asked: learner 0, which would answer, may be the one that hangs.
      if (seconds_since(start) >= 0.9 * options.timeout) {
        throw LearnerLost(fmt::format(
            "learner {} of {} has waited {:.0f} s for another one (--learner-timeout): it hangs, or the network is cut",
            options.rank, options.size, options.timeout));
      }
      throw LearnerLost(fmt::format("{} (noticed by learner {} of {}: {})", who(), options.rank, options.size,
                                    first_line(error.what())));
    }
  }

  void all_reduce(c10d::Backend& backend, at::Tensor tensor) {
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    together([&] { return backend.allreduce(tensors); });
  }
};

bool LearnerGroup::available() { return true; }

LearnerGroup::LearnerGroup(Options options) : impl_(std::make_unique<Impl>()) {
  PARL_CHECK(options.size >= 1 && options.rank >= 0 && options.rank < options.size, "learner {} of {}", options.rank,
             options.size);
  impl_->options = std::move(options);
  impl_->port = impl_->options.port;
  if (impl_->options.rank == 0 && impl_->options.serve)
    impl_->listener = listen_at(impl_->options.host, impl_->options.port, impl_->port);
}

LearnerGroup::~LearnerGroup() {
  if (impl_->listener >= 0) ::close(impl_->listener);
}

int LearnerGroup::port() const { return impl_->port; }
int LearnerGroup::rank() const { return impl_->options.rank; }
int LearnerGroup::size() const { return impl_->options.size; }
std::string LearnerGroup::name_of(int rank) const {
  return fmt::format("{} ({})", rank, impl_->names.at(static_cast<size_t>(rank)));
}

void LearnerGroup::join(const std::function<void()>& meanwhile) {
  Impl& m = *impl_;
  try {
    m.open_store();
    m.meet(meanwhile);
    m.connect();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    raise("learner {} of {} cannot meet the others at {}:{}: {}", rank(), size(), m.options.host, m.port,
          first_line(error.what()));
  }
}

void LearnerGroup::sum(at::Tensor& flat) {
  Impl& m = *impl_;
  if (m.nccl) return m.all_reduce(*m.nccl, flat);
  if (flat.is_cpu()) return m.all_reduce(*m.gloo, flat);
  at::Tensor here = flat.cpu();
  m.all_reduce(*m.gloo, here);
  flat.copy_(here);
}

void LearnerGroup::sum(std::span<double> values) {
  impl_->all_reduce(*impl_->gloo, at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kDouble));
}

std::vector<std::string> LearnerGroup::gather(const std::string& mine) {
  Impl& m = *impl_;
  const auto all_gather = [&](at::Tensor own) {
    std::vector<std::vector<at::Tensor>> parts(1);
    for (int r = 0; r < size(); ++r) parts[0].push_back(at::empty_like(own));
    std::vector<at::Tensor> input = {std::move(own)};
    m.together([&] { return m.gloo->allgather(parts, input); });
    return std::move(parts[0]);
  };
  const std::vector<at::Tensor> sizes = all_gather(at::full({1}, static_cast<int64_t>(mine.size()), at::kLong));
  int64_t largest = 1;
  for (const at::Tensor& s : sizes) largest = std::max(largest, s.item<int64_t>());
  at::Tensor own = at::zeros({largest}, at::kByte);
  std::copy(mine.begin(), mine.end(), own.mutable_data_ptr<uint8_t>());
  const std::vector<at::Tensor> parts = all_gather(own);
  std::vector<std::string> out;
  for (size_t r = 0; r < parts.size(); ++r) {
    const auto* bytes = reinterpret_cast<const char*>(parts[r].const_data_ptr<uint8_t>());
    out.emplace_back(bytes, static_cast<size_t>(sizes[r].item<int64_t>()));
  }
  return out;
}

std::string LearnerGroup::from_first(const std::string& mine) {
  Impl& m = *impl_;
  const auto broadcast = [&](at::Tensor tensor) {
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    m.together([&] { return m.gloo->broadcast(tensors); });
    return tensors[0];
  };
  const int64_t bytes = broadcast(at::full({1}, static_cast<int64_t>(mine.size()), at::kLong)).item<int64_t>();
  at::Tensor tensor = at::zeros({std::max<int64_t>(bytes, 1)}, at::kByte);
  if (rank() == 0) std::copy(mine.begin(), mine.end(), tensor.mutable_data_ptr<uint8_t>());
  tensor = broadcast(tensor);
  return {reinterpret_cast<const char*>(tensor.const_data_ptr<uint8_t>()), static_cast<size_t>(bytes)};
}

void LearnerGroup::leave(const std::string& reason) noexcept {
  Impl& m = *impl_;
  try {
    if (!m.gloo || m.broken) return;
    m.store->set(m.key("left", rank()), bytes_of(first_line(reason)));
    if (rank() != 0) m.store->add("told", 1);  // nobody needs to tell it anything
    m.broken = true;
    m.nccl.reset();
    m.gloo.reset();  // the others notice
    const auto start = Clock::now();
    while (rank() == 0 && m.store->add("told", 0) < size() - 1 && Clock::now() - start < kTellWithin)
      std::this_thread::sleep_for(kAskEvery);
  } catch (const std::exception& error) {
    log().debug("leaving the other learners: {}", error.what());
  }
}

#else  // without c10d

struct LearnerGroup::Impl {};

bool LearnerGroup::available() { return false; }
LearnerGroup::LearnerGroup(Options) {
  raise("this program was built with a libtorch without c10d and Gloo: --learners must be 1");
}
LearnerGroup::~LearnerGroup() = default;
int LearnerGroup::port() const { return 0; }
void LearnerGroup::join(const std::function<void()>&) {}
int LearnerGroup::rank() const { return 0; }
int LearnerGroup::size() const { return 1; }
void LearnerGroup::sum(at::Tensor&) {}
void LearnerGroup::sum(std::span<double>) {}
std::vector<std::string> LearnerGroup::gather(const std::string& mine) { return {mine}; }
std::string LearnerGroup::from_first(const std::string& mine) { return mine; }
std::string LearnerGroup::name_of(int rank) const { return std::to_string(rank); }
void LearnerGroup::leave(const std::string&) noexcept {}

#endif

}  // namespace parl
