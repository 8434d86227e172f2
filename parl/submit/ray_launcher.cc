// Workers as restartable Ray actors, placed by their resources; the talking to Ray is ray_launcher.py's, which runs as
// a child of this program and ends when its stdin does. Ray's autoscaler and KubeRay come with that.
#include <signal.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "parl/core/check.h"
#include "parl/core/files.h"
#include "parl/submit/launcher.h"
#include "parl/submit/options.h"
#include "parl/submit/quote.h"

namespace parl::submit {

extern const char* const kRayScript;  // the text of ray_launcher.py

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kEnd(30);

std::string environment_or(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

// The first word of `text`, which is taken off with the blank after it.
std::string take_word(std::string_view& text) {
  const size_t end = std::min(text.find(' '), text.size());
  const std::string word(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

class RayLauncher final : public Launcher {
 public:
  explicit RayLauncher(const SubmitOptions& options)
      : cluster_(options.ray_address),
        python_(options.ray_python.empty() ? environment_or("PARL_RAY_PYTHON", "python3") : options.ray_python) {
    PARL_CHECK(options.site_options.empty(), "--site-options belong to ssh and slurm");
  }

  // Where the cluster's head is seen from here; its own machine notes the address in a file.
  std::string host_of_learner() const override {
    std::string head = cluster_.empty() ? environment_or("RAY_ADDRESS", "") : cluster_;
    if (head.empty() || head == "auto") {
      try {
        head = read_file("/tmp/ray/ray_current_cluster");
      } catch (const Error&) {
        return this_host();
      }
    }
    if (const size_t slashes = head.find("://"); slashes != std::string::npos) head.erase(0, slashes + 3);
    const std::string own = address_towards(head.substr(0, head.rfind(':')));
    return own.empty() ? this_host() : own;
  }

  void check_tools() const override {
    PARL_CHECK(has_program(python_),
               "there is no '{}' here; name a Python that has the package ray (pip install ray): "
               "--ray-python or PARL_RAY_PYTHON",
               python_);
  }

  std::string describe(const SubmitPlan& plan) const override {
    return fmt::format("# workers: {} {}, which reads this, and the token, from stdin\n{}\n", shell_quote(python_),
                       script_file(plan), description(plan, "").dump(2));
  }

  void start(const SubmitPlan& plan, ProcessLoop& loop, Board& board) override {
    plan_ = &plan;
    loop_ = &loop;
    board_ = &board;
    write_file_atomically(script_file(plan), kRayScript);
    std::string token = read_file(plan.token_file);
    token.erase(token.find_last_not_of(" \t\r\n") + 1);
    Command command;
    command.argv = {python_, script_file(plan)};
    command.input = description(plan, token).dump() + "\n";
    command.keeps_input_open = true;
    id_ = loop.start(
        command, [this](std::string_view line) { on_line(line); }, [this](int code) { on_exit(code); });
  }

  void step() override {
    if (!error_.empty()) raise("{}", error_);
  }

  void stop() override {
    if (!loop_ || id_ == 0) return;
    is_stopping_ = true;
    loop_->close_input(id_);
    const auto deadline = Clock::now() + kEnd;
    while (loop_->is_running(id_) && Clock::now() < deadline) loop_->run_once(milliseconds(200));
    loop_->signal(id_, SIGKILL);  // Ray ends the actors of a driver that is gone
    for (int i = 0; i < board_->size(); ++i) {
      if (board_->state(i) != WorkerState::kFailed) board_->set(i, WorkerState::kEnded);
    }
  }

 private:
  static std::string script_file(const SubmitPlan& plan) { return plan.directory + "/ray_launcher.py"; }

  nlohmann::ordered_json description(const SubmitPlan& plan, const std::string& token) const {
    nlohmann::ordered_json run;
    run["cluster"] = cluster_;
    run["name"] = plan.name;
    run["workers"] = plan.workers;
    run["cpus"] = plan.cpus;
    run["gpus"] = plan.gpus;
    run["memory"] = plan.memory;
    run["restarts"] = plan.restarts;
    run["command"] = plan.worker_command();
    run["directory"] = plan.work_directory;
    run["environment"] = nlohmann::ordered_json::object();
    for (const auto& [name, value] : plan.worker_environment()) run["environment"][name] = value;
    if (!token.empty()) run["token"] = token;
    return run;
  }

  void on_line(std::string_view line) {
    std::string_view rest = line;
    const std::string what = take_word(rest);
    if (what == "error") {
      error_ = rest;
      return;
    }
    if (what != "state" && what != "line") return board_->say("ray: " + std::string(line));
    const std::string number = take_word(rest);
    int worker = -1;
    std::from_chars(number.data(), number.data() + number.size(), worker);
    if (worker < 0 || worker >= board_->size()) return board_->say("ray: " + std::string(line));
    if (what == "line") return board_->line(worker, rest);
    const std::string state = take_word(rest);
    std::string node = take_word(rest);
    if (node == "-") node.clear();
    board_->set(worker, state_of(state), node, std::string(rest));
  }

  static WorkerState state_of(const std::string& name) {
    if (name == "running") return WorkerState::kRunning;
    if (name == "ended") return WorkerState::kEnded;
    return name == "failed" ? WorkerState::kFailed : WorkerState::kPending;
  }

  void on_exit(int code) {
    if (!is_stopping_ && error_.empty())
      error_ = fmt::format("{} has ended with code {}; what it said is above", script_file(*plan_), code);
  }

  const std::string cluster_, python_;
  const SubmitPlan* plan_ = nullptr;
  ProcessLoop* loop_ = nullptr;
  Board* board_ = nullptr;
  ProcessLoop::Id id_ = 0;
  std::string error_;
  bool is_stopping_ = false;
};

}  // namespace

std::unique_ptr<Launcher> make_ray_launcher(SubmitOptions& options) { return std::make_unique<RayLauncher>(options); }

}  // namespace parl::submit
