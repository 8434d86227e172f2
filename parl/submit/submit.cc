#include "parl/submit/submit.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include "parl/core/check.h"
#include "parl/remote/keygen.h"
#include "parl/submit/launcher.h"
#include "parl/submit/quote.h"

namespace parl::submit {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kLearnersGrace(60);  // for a checkpoint, when the site is lost

volatile sig_atomic_t signals_seen = 0, last_signal = 0;

void on_signal(int signal) {
  signals_seen = signals_seen + 1;
  last_signal = signal;
}

class Signals {
 public:
  Signals() {
    signals_seen = 0;
    struct sigaction action {};
    action.sa_handler = on_signal;  // without SA_RESTART: poll() returns
    for (size_t i = 0; i < kCount; ++i) ::sigaction(kHandled[i], &action, &before_[i]);
  }
  ~Signals() {
    for (size_t i = 0; i < kCount; ++i) ::sigaction(kHandled[i], &before_[i], nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  static constexpr int kHandled[] = {SIGINT, SIGTERM, SIGHUP};
  static constexpr size_t kCount = 3;
  struct sigaction before_[kCount];
};

// The run's directory and token; takes away what it made that is a secret.
class Workplace {
 public:
  explicit Workplace(const SubmitPlan& plan) : plan_(plan) {
    std::error_code error;
    std::filesystem::create_directories(plan.directory, error);
    PARL_CHECK(!error, "'{}' cannot be made: {}; name another with --dir", plan.directory, error.message());
    if (plan.token_is_new) make_token(plan.token_file);
  }
  ~Workplace() {
    if (plan_.token_is_new) ::unlink(plan_.token_file.c_str());
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

 private:
  const SubmitPlan& plan_;
};

Command learner_command(const SubmitPlan& plan) {
  Command command;
  command.argv = plan.learner_command();
  command.environment = {{"PARL_ENGINE", plan.listen()}, {"PARL_TOKEN_FILE", plan.token_file}};
  command.is_shown = true;
  return command;
}

class Run {
 public:
  Run(const SubmitPlan& plan, Launcher& launcher)
      : plan_(plan),
        launcher_(launcher),
        board_(plan.workers, launcher.writes_logs() ? "" : plan.directory, plan.is_quiet) {}

  int work() {
    const Signals signals;
    board_.say(
        fmt::format("{} workers for the learner at {}; logs in {}", plan_.workers, plan_.dial(), plan_.directory));
    try {
      launcher_.start(plan_, loop_, board_);
      while (!is_over()) {
        loop_.run_once(milliseconds(200));
        launcher_.step();
        board_.show();
        if (!is_started_ && is_time()) start_learner();
        if (!has_given_up_ && nobody_is_left()) give_up();
        hear_signals();
      }
    } catch (...) {
      board_.say("ending the run");
      end_learner_in_time();
      launcher_.stop();
      throw;
    }
    board_.show(true);
    board_.say(code_ ? fmt::format("the learner has ended with code {}; ending the workers", *code_)
                     : std::string("ending the workers"));
    launcher_.stop();
    return exit_code();
  }

 private:
  bool is_over() {
    if (is_started_ && !launcher_.has_local_learner()) code_ = launcher_.learner_code();
    return code_ || (!is_started_ && (signals_seen > 0 || has_given_up_));
  }

  int exit_code() const {
    if (has_given_up_) return code_ && *code_ != 0 ? *code_ : 1;
    return code_.value_or(130);
  }

  // When as many run as are wanted, or those that run are all that will.
  bool is_time() const {
    const int running = board_.count(WorkerState::kRunning);
    return running >= plan_.start_with || (running > 0 && board_.count(WorkerState::kPending) == 0);
  }

  bool nobody_is_left() const {
    return board_.count(WorkerState::kRunning) == 0 && board_.count(WorkerState::kPending) == 0;
  }

  void start_learner() {
    board_.show(true);
    is_started_ = true;
    if (!launcher_.has_local_learner()) return launcher_.start_learner();
    learner_ = loop_.start(learner_command(plan_), nullptr, [this](int code) { code_ = code; });
  }

  void end_learner(int signal) {
    if (!is_started_) return;
    if (!launcher_.has_local_learner()) return launcher_.stop_learner();
    loop_.signal(learner_, signal);
  }

  void end_learner_in_time() {
    if (!is_started_ || !launcher_.has_local_learner()) return;
    const auto deadline = std::chrono::steady_clock::now() + kLearnersGrace;
    loop_.signal(learner_, SIGTERM);
    while (loop_.is_running(learner_) && std::chrono::steady_clock::now() < deadline) loop_.run_once(milliseconds(200));
  }

  void give_up() {
    has_given_up_ = true;
    board_.say("no worker is left: giving up");
    end_learner(SIGTERM);
  }

  void hear_signals() {
    const int seen = signals_seen;
    if (seen == heard_) return;
    heard_ = seen;
    if (seen >= 2) {
      board_.say("a second signal: killing the learner");
      return end_learner(SIGKILL);
    }
    board_.say("interrupted: the learner is told to end; once more kills it");
    end_learner(last_signal == SIGINT ? SIGINT : SIGTERM);
  }

  const SubmitPlan& plan_;
  Launcher& launcher_;
  Board board_;
  ProcessLoop loop_;
  ProcessLoop::Id learner_ = 0;
  bool is_started_ = false, has_given_up_ = false;
  int heard_ = 0;
  std::optional<int> code_;
};

SubmitPlan plan_for(const SubmitOptions& options, const Launcher& launcher) {
  return make_plan(options, options.address.empty() ? launcher.host_of_learner() : "", launcher.has_local_learner());
}

std::string describe(const SubmitPlan& plan, const Launcher& launcher) {
  if (!launcher.has_local_learner()) return launcher.describe(plan);
  std::string out = "# learner, on this machine, once " + std::to_string(plan.start_with) + " of " +
                    std::to_string(plan.workers) + " workers run:\n";
  out += fmt::format("PARL_ENGINE={} PARL_TOKEN_FILE={} {}\n", shell_quote(plan.listen()), shell_quote(plan.token_file),
                     shell_join(plan.learner_command()));
  out += plan.token_is_new ? "# the token's file is made for this run, readable by you alone, and removed after it\n\n"
                           : "\n";
  return out + launcher.describe(plan);
}

}  // namespace

void check(SubmitOptions options) {
  const auto launcher = make_launcher(options);
  make_plan(options, "here", launcher->has_local_learner());
}

std::string dry_run(SubmitOptions options) {
  const auto launcher = make_launcher(options);
  const SubmitPlan plan = plan_for(options, *launcher);
  return describe(plan, *launcher);
}

int run(SubmitOptions options) {
  if (options.dry_run) {
    const std::string text = dry_run(options);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    return 0;
  }
  const auto launcher = make_launcher(options);
  launcher->check_tools();
  const SubmitPlan plan = plan_for(options, *launcher);
  PARL_CHECK(!launcher->has_local_learner() || has_program(plan.program[0]),
             "there is no program '{}' here, where the learner shall run", plan.program[0]);
  const Workplace workplace(plan);
  return Run(plan, *launcher).work();
}

}  // namespace parl::submit
