#include "parl/remote/internal/last_words.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>

#include "parl/core/check.h"
#include "parl/remote/internal/spawn.h"

namespace parl::internal {
namespace {

constexpr std::array kDeadly = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS};
constexpr size_t kStackBytes = 64 * 1024;

// Set before the handlers are.
WorkerOutput* output = nullptr;
std::array<const char*, NSIG> texts{};
int stop_request = -1;

// What a handler may do is little: it waits for another thread here.
void on_deadly(int number) {
  output->say_last(texts[static_cast<size_t>(number)]);
  ::signal(number, SIG_DFL);
  ::raise(number);  // when this handler returns
}

void on_request(int) {
  const int before = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_request, &one, sizeof one);
  errno = before;
}

void handle(int number, void (*handler)(int), int flags) {
  struct sigaction now {};
  if (::sigaction(number, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL) return;
  struct sigaction ours {};
  ours.sa_handler = handler;
  ours.sa_flags = flags;
  ::sigaction(number, &ours, nullptr);
}

}  // namespace

void listen_to_signals(WorkerOutput& of_worker, std::function<void()> leave) {
  output = &of_worker;
  for (const int number : kDeadly) {
    const auto* text = new std::string(fmt::format("was killed by signal {} ({})", number, ::strsignal(number)));
    texts[static_cast<size_t>(number)] = text->c_str();
  }
  stop_request = ::eventfd(0, EFD_CLOEXEC);
  if (stop_request < 0) throw Error(resource_message("a worker cannot listen to signals", errno));
  std::thread waiter([leave = std::move(leave)] {
    uint64_t count;
    while (::read(stop_request, &count, sizeof count) < 0 && errno == EINTR) {
    }
    leave();
  });
  ::pthread_setname_np(waiter.native_handle(), "parl-stop");
  waiter.detach();  // it lives as long as the process
  for (const int number : kDeadly) handle(number, on_deadly, SA_ONSTACK);
  handle(SIGTERM, on_request, static_cast<int>(SA_RESTART | SA_RESETHAND));
}

SignalStack::SignalStack() {
  stack_t now{};
  if (::sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
  memory_.reset(new char[kStackBytes]);
  stack_t own{};
  own.ss_sp = memory_.get();
  own.ss_size = kStackBytes;
  if (::sigaltstack(&own, nullptr) != 0) memory_.reset();
}

SignalStack::~SignalStack() {
  if (!memory_) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
}

}  // namespace parl::internal
