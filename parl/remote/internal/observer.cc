// Asks a learner for its status: dials, shows that it may, asks, reads one answer (status.h).
#include <condition_variable>
#include <mutex>
#include <optional>

#include "parl/core/check.h"
#include "parl/remote/internal/auth.h"
#include "parl/remote/internal/connection.h"
#include "parl/remote/options.h"
#include "parl/remote/status.h"
#include "parl/wire/wire.h"

namespace parl {
namespace internal {
namespace {

constexpr FrameLimits kAnswerLimits{uint64_t{4} << 20, uint64_t{4} << 20, 0};

class Observer final : public Connection::Listener {
 public:
  explicit Observer(const Security& security) : security_(security), own_(make_greeting(security, Role::kObserver)) {}

  void on_open(const std::shared_ptr<Connection>& self) override {
    connection_ = self;
    self->tell(ControlKind::kHello, own_);
  }

  void on_frame(uint32_t object, Frame frame) override {
    PARL_CHECK(object == 0, "a frame for object {}, which is not here", object);
    Reader reader = frame.reader();
    const auto kind = static_cast<ControlKind>(frame.kind);
    if (kind == ControlKind::kRefuse) return connection_->finish("refuses: " + wire::load<Bye>(reader).why);
    if (kind == ControlKind::kChallenge && stage_ == Stage::kHello) return on_challenge(reader);
    if (kind == ControlKind::kWelcome && stage_ == Stage::kProof) return on_welcome(reader);
    if (kind == ControlKind::kStatus && stage_ == Stage::kAsked) return on_status(reader);
    raise("a message of kind {} has no place here", frame.kind);
  }

  void on_end(const std::string& why) override {
    std::lock_guard lock(mutex_);
    is_ended_ = true;
    why_ = why;
    changed_.notify_all();
  }

  // Empty: none by `deadline`, or why() it ended.
  std::optional<ManagerStatus> wait(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [&] { return status_ || is_ended_; });
    return status_;
  }
  void wait_end() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_ended_; });
  }
  std::string why() {
    std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  enum class Stage { kHello, kProof, kAsked };

  void on_challenge(Reader& reader) {
    learner_ = read_greeting(reader);
    if (const std::string why = why_not(security_, learner_); !why.empty()) return connection_->finish(why);
    stage_ = Stage::kProof;
    connection_->tell(ControlKind::kProof,
                      Proof{prove(security_, Side::kObserver, own_, learner_, connection_->binding())});
  }

  void on_welcome(Reader& reader) {
    const auto welcome = wire::load<Welcome>(reader);
    if (!is_proved(security_, Side::kLearner, own_, learner_, connection_->binding(), welcome.mac))
      return connection_->finish("has another token");
    stage_ = Stage::kAsked;
    using std::chrono::hours;
    connection_->trust(kAnswerLimits, 1, hours(1), hours(1));  // whoever asked has a deadline
    connection_->send(0, static_cast<uint8_t>(ControlKind::kAsk), 0, Writer());
  }

  void on_status(Reader& reader) {
    auto status = wire::load<ManagerStatus>(reader);
    {
      std::lock_guard lock(mutex_);
      status_ = std::move(status);
      changed_.notify_all();
    }
    connection_->finish("has answered");
  }

  const Security security_;
  const Greeting own_;
  Stage stage_ = Stage::kHello;  // this and the next two are the loop's
  Greeting learner_;
  std::shared_ptr<Connection> connection_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<ManagerStatus> status_;
  bool is_ended_ = false;
  std::string why_;
};

}  // namespace
}  // namespace internal

ManagerStatus ask_status(const std::string& address, std::chrono::milliseconds timeout) {
  using namespace internal;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const Address where = parse_address(address);
  const Security security = load_security(resolve({}));
  check_guarded(where, security);
  IoLoop loop;
  UniqueFd socket = connect_to(where, deadline);
  tune_socket(socket.get(), kKernelPatience);
  const auto observer = std::make_shared<Observer>(security);
  const auto connection = Connection::start(
      loop, make_transport(std::move(socket), security, where.is_unix() ? "*" : where.host), observer);
  auto status = observer->wait(deadline);
  const bool is_late = !status && observer->why().empty();
  connection->end("gave no answer in time");
  observer->wait_end();
  PARL_CHECK(status, "the learner at {} {}{}", where.text(), observer->why(),
             is_late ? fmt::format(" ({} ms)", timeout.count()) : "");
  return std::move(*status);
}

}  // namespace parl
