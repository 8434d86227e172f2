#include <algorithm>
#include <random>

#include "parl/core/check.h"
#include "parl/core/log.h"
#include "parl/remote/internal/tcp_worker.h"

namespace parl::internal {
namespace {

using Time = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

constexpr auto kConnect = std::chrono::seconds(5);
constexpr auto kWelcome = std::chrono::seconds(10);
constexpr milliseconds kFirstPause{20}, kLongestPause{2000}, kRefusedPause{5000};
constexpr auto kGoodSession = std::chrono::seconds(2);  // one that ends sooner is no reason to hurry

Time now() { return std::chrono::steady_clock::now(); }

}  // namespace

Dialer::Dialer(const WorkerSettings& settings, Security security, WorkerOutput* output)
    : settings_(settings), address_(parse_address(settings.address)), security_(std::move(security)), output_(output) {}

std::shared_ptr<WorkerSession> Dialer::attempt(const ClassInfo* object, TimePoint deadline, std::string& why,
                                               bool& was_refused) {
  std::shared_ptr<WorkerSession> session;
  try {
    check_guarded(address_, security_);
    UniqueFd socket = connect_to(address_, std::min<Time>(now() + kConnect, deadline));
    tune_socket(socket.get(), kKernelPatience);
    session = std::make_shared<WorkerSession>(security_, settings_, object, output_);
    const auto connection = Connection::start(
        loop_, make_transport(std::move(socket), security_, address_.is_unix() ? "*" : address_.host), session);
    if (session->wait_welcome(std::min<Time>(now() + kWelcome, deadline))) return session;
    connection->end("the learner did not say welcome in time");
  } catch (const Error& error) {
    why = error.what();
    was_refused = false;
    return nullptr;
  }
  session->wait_end();
  why = fmt::format("the learner at {}: {}", address_.text(), session->why());
  was_refused = session->was_refused();
  return nullptr;
}

// Each reason once in a row.
void Dialer::report(const std::string& why) {
  if (why == reported_) return;
  reported_ = why;
  log().warn("{}; trying again", why);
}

// With some chance in it, so that a thousand workers do not come at once.
void Dialer::pause(bool was_refused, TimePoint deadline) {
  static thread_local std::minstd_rand random(std::random_device{}());
  const milliseconds longest = was_refused ? kRefusedPause : kLongestPause;
  pause_ = std::clamp(pause_ * 2, kFirstPause, longest);
  const double part = std::uniform_real_distribution<double>(0.75, 1.25)(random);
  const Time until = now() + std::chrono::duration_cast<Time::duration>(pause_ * part);
  std::this_thread::sleep_until(std::min(until, deadline));
}

std::shared_ptr<WorkerSession> Dialer::dial(const ClassInfo* object, TimePoint deadline) {
  if (welcomed_ != kNoWait) {
    if (now() - welcomed_ >= kGoodSession) {
      pause_ = milliseconds(0);
    } else {
      pause(false, deadline);
    }
  }
  for (;;) {
    std::string why;
    bool was_refused = false;
    if (auto session = attempt(object, deadline, why, was_refused)) {
      reported_.clear();
      welcomed_ = now();
      return session;
    }
    report(why);
    if (now() >= deadline) return nullptr;
    pause(was_refused, deadline);
  }
}

}  // namespace parl::internal
