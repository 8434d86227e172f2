// Workers over ssh: one connection each, whose end is the worker's end. A small script over there reads the token from
// its stdin into a file that only its user can read, starts the worker, and ends it when stdin does: with this
// program, or with the connection.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "parl/core/check.h"
#include "parl/core/files.h"
#include "parl/submit/launcher.h"
#include "parl/submit/options.h"
#include "parl/submit/quote.h"

namespace parl::submit {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kRunning = "parl-submit: running on ";
constexpr int kConnectingPerHost = 8;  // sshd refuses more than 10 strangers at once (MaxStartups)
constexpr seconds kGoodWhile(60);      // a worker that ran for so long has its restarts back
constexpr seconds kFirstPause(1), kLongestPause(30);
constexpr seconds kEnd(10);

class SshLauncher final : public Launcher {
 public:
  explicit SshLauncher(SubmitOptions& options)
      : hosts_(deal_hosts(parse_hosts(options.hosts, options.host_file), options.workers)),
        site_options_(shell_split(options.site_options)) {
    options.workers = static_cast<int>(hosts_.size());
  }

  std::string host_of_learner() const override {
    std::string nearest;
    for (const std::string& host : std::set<std::string>(hosts_.begin(), hosts_.end())) {
      const std::string own = address_towards(real_name(host));
      if (nearest.empty() || is_loopback(nearest)) nearest = own;
    }
    return nearest.empty() ? this_host() : nearest;
  }

  void check_tools() const override {
    PARL_CHECK(has_program("ssh"), "there is no 'ssh' here; install it (Debian: apt-get install openssh-client)");
  }

  std::string describe(const SubmitPlan& plan) const override {
    std::string out;
    for (int i = 0; i < plan.workers; ++i)
      out += fmt::format("# worker {}; the token's text goes to its stdin\n{}\n", i, shell_join(ssh_command(plan, i)));
    return out;
  }

  void start(const SubmitPlan& plan, ProcessLoop& loop, Board& board) override {
    plan_ = &plan;
    loop_ = &loop;
    board_ = &board;
    token_ = read_file(plan.token_file);
    token_.erase(token_.find_last_not_of(" \t\r\n") + 1);
    PARL_CHECK(!token_.empty() && token_.find('\n') == std::string::npos, "the token in '{}' is not one line",
               plan.token_file);
    workers_.resize(hosts_.size());
    step();
  }

  void step() override {
    for (size_t i = 0; i < workers_.size(); ++i) {
      const bool is_due = workers_[i].stage == Stage::kWaiting && Clock::now() >= workers_[i].start_at;
      if (is_due && connecting_[hosts_[i]] < kConnectingPerHost) connect(i);
    }
  }

  void stop() override {
    is_stopping_ = true;
    if (!loop_) return;
    for (Worker& worker : workers_) {
      if (worker.stage == Stage::kConnecting) loop_->signal(worker.id, SIGTERM);
      loop_->close_input(worker.id);
    }
    const auto deadline = Clock::now() + kEnd;
    while (is_any_left() && Clock::now() < deadline) loop_->run_once(milliseconds(200));
    for (const Worker& worker : workers_) loop_->signal(worker.id, SIGKILL);
  }

 private:
  enum class Stage { kWaiting, kConnecting, kRunning, kGone };
  struct Worker {
    Stage stage = Stage::kWaiting;
    Clock::time_point start_at{}, running_since{};
    int failures = 0;
    ProcessLoop::Id id = 0;
  };

  // What ~/.ssh/config makes of a host's name.
  std::string real_name(const std::string& host) const {
    if (!has_program("ssh")) return host;
    std::vector<std::string> argv = {"ssh", "-G"};
    argv.insert(argv.end(), site_options_.begin(), site_options_.end());
    argv.push_back(host);
    const Outcome outcome = run_command({argv}, seconds(10));
    constexpr std::string_view kKey = "\nhostname ";
    const std::string text = "\n" + outcome.output;
    const size_t at = text.find(kKey);
    if (outcome.code != 0 || at == std::string::npos) return host;
    const size_t begin = at + kKey.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  }

  // One line, and no '!': the login shell over there may be any.
  std::string script(const SubmitPlan& plan, int worker) const {
    std::string s = "umask 077; IFS= read -r token || exit 97; ";
    for (const auto& [name, value] : plan.worker_environment())
      s += fmt::format("export {}={}; ", name, shell_quote(value));
    s += "dir=$(mktemp -d \"${TMPDIR:-/tmp}/parl-submit.XXXXXXXX\") || exit 97; trap 'rm -rf \"$dir\"' EXIT; "
         "printf %s \"$token\" >\"$dir/token\" || exit 97; unset token; export PARL_TOKEN_FILE=\"$dir/token\"; ";
    if (plan.gpus > 0) s += fmt::format("export CUDA_VISIBLE_DEVICES={}; ", gpus_of(worker, plan.gpus));
    if (!plan.work_directory.empty()) s += fmt::format("cd {} || exit 98; ", shell_quote(plan.work_directory));
    // In a session of its own where there is setsid, so that what the program starts ends with it.
    s += "end() { kill -$1 -$worker 2>/dev/null || kill -$1 $worker 2>/dev/null; }; ";
    s += fmt::format("exec 3<&0; $(command -v setsid) {} </dev/null 3<&- & worker=$!; ",
                     shell_join(plan.worker_command()));
    s += "(cat <&3; end TERM; sleep 5; end KILL) </dev/null >/dev/null 2>&1 & watcher=$!; "
         "exec 3<&-; trap 'end TERM' HUP INT TERM; ";
    s += fmt::format("echo \"{}$(uname -n)\"; ", kRunning);
    return s +
           "wait $worker 2>/dev/null; status=$?; kill $watcher 2>/dev/null; kill -KILL -$worker 2>/dev/null; "
           "exit $status";
  }

  // The n-th worker of a host gets its n-th group of GPUs.
  std::string gpus_of(int worker, int gpus) const {
    int before = 0;
    for (int i = 0; i < worker; ++i) before += hosts_[static_cast<size_t>(i)] == hosts_[static_cast<size_t>(worker)];
    std::string out;
    for (int g = 0; g < gpus; ++g) out += (g > 0 ? "," : "") + std::to_string(before * gpus + g);
    return out;
  }

  std::vector<std::string> ssh_command(const SubmitPlan& plan, int worker) const {
    std::vector<std::string> argv = {"ssh"};
    argv.insert(argv.end(), plan.site_options.begin(), plan.site_options.end());  // of an option the first one counts
    for (const char* option :
         {"-T", "-oBatchMode=yes", "-oConnectTimeout=20", "-oServerAliveInterval=15", "-oServerAliveCountMax=4"})
      argv.emplace_back(option);
    argv.push_back(hosts_[static_cast<size_t>(worker)]);
    argv.push_back("exec sh -c " + shell_quote(script(plan, worker)));
    return argv;
  }

  void connect(size_t i) {
    Worker& worker = workers_[i];
    Command command;
    command.argv = ssh_command(*plan_, static_cast<int>(i));
    command.input = token_ + "\n";
    command.keeps_input_open = true;
    worker.stage = Stage::kConnecting;
    ++connecting_[hosts_[i]];
    board_->set(static_cast<int>(i), WorkerState::kPending, hosts_[i]);
    worker.id = loop_->start(
        command, [this, i](std::string_view line) { on_line(i, line); }, [this, i](int code) { on_exit(i, code); });
  }

  void on_line(size_t i, std::string_view line) {
    Worker& worker = workers_[i];
    if (worker.stage != Stage::kConnecting || !line.starts_with(kRunning))
      return board_->line(static_cast<int>(i), line);
    --connecting_[hosts_[i]];
    worker.stage = Stage::kRunning;
    worker.running_since = Clock::now();
    board_->set(static_cast<int>(i), WorkerState::kRunning, hosts_[i]);
  }

  void on_exit(size_t i, int code) {
    Worker& worker = workers_[i];
    const int number = static_cast<int>(i);
    if (worker.stage == Stage::kConnecting) --connecting_[hosts_[i]];
    const bool ran_well = worker.stage == Stage::kRunning && Clock::now() - worker.running_since >= kGoodWhile;
    worker.stage = Stage::kGone;
    if (is_stopping_ || code == 0) return board_->set(number, WorkerState::kEnded);
    if (ran_well) worker.failures = 0;
    const std::string why = reason(code);
    if (worker.failures >= plan_->restarts) return board_->set(number, WorkerState::kFailed, "", why);
    const seconds pause = std::min(kFirstPause * (1 << std::min(worker.failures, 5)), kLongestPause);
    ++worker.failures;
    worker.start_at = Clock::now() + pause;
    worker.stage = Stage::kWaiting;
    board_->set(
        number, WorkerState::kPending, "",
        fmt::format("{}; starting it again in {} s ({} of {})", why, pause.count(), worker.failures, plan_->restarts));
  }

  static std::string reason(int code) {
    if (code == 255) return "ssh could not connect, or lost the connection (code 255)";
    if (code == 97) return "no file for the token could be made there (code 97)";
    if (code == 98) return "the directory is not there; see --chdir (code 98)";
    if (code == 127) return "the program is not there (code 127)";
    if (code > 128) return fmt::format("was killed by signal {}", code - 128);
    return fmt::format("ended with code {}", code);
  }

  bool is_any_left() const {
    for (const Worker& worker : workers_) {
      if (loop_->is_running(worker.id)) return true;
    }
    return false;
  }

  const std::vector<std::string> hosts_;  // of each worker
  const std::vector<std::string> site_options_;
  const SubmitPlan* plan_ = nullptr;
  ProcessLoop* loop_ = nullptr;
  Board* board_ = nullptr;
  std::string token_;
  std::vector<Worker> workers_;
  std::map<std::string, int> connecting_;
  bool is_stopping_ = false;
};

}  // namespace

std::unique_ptr<Launcher> make_ssh_launcher(SubmitOptions& options) { return std::make_unique<SshLauncher>(options); }

}  // namespace parl::submit
