// Workers and learner in a Kubernetes cluster, through kubectl: its objects are in k8s_manifest.h. The workers come
// first; the learner's Job is made when they run, because a learner does not wait long for its workers.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>

#include "parl/core/check.h"
#include "parl/core/files.h"
#include "parl/submit/k8s_manifest.h"
#include "parl/submit/launcher.h"
#include "parl/submit/options.h"
#include "parl/submit/quote.h"

namespace parl::submit {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kAsk(2), kPatience(60), kEnd(180);
constexpr const char* kColumns =
    "custom-columns=KIND:.kind,ROLE:.metadata.labels.parl-role,"
    "INDEX:.metadata.annotations.batch\\.kubernetes\\.io/job-completion-index,PHASE:.status.phase,"
    "CODE:.status.containerStatuses[0].state.terminated.exitCode,"
    "WAITING:.status.containerStatuses[0].state.waiting.reason,NODE:.spec.nodeName,NAME:.metadata.name,"
    "CONDITIONS:.status.conditions[*].type";

// A line of `kubectl get`.
struct Seen {
  std::string kind, role, index, phase, code, waiting, node, name, conditions;
};

std::vector<Seen> parse_objects(const std::string& text) {
  std::vector<Seen> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    Seen s;
    std::istringstream words(line);
    words >> s.kind >> s.role >> s.index >> s.phase >> s.code >> s.waiting >> s.node >> s.name >> s.conditions;
    for (std::string* text : {&s.index, &s.phase, &s.code, &s.waiting, &s.node, &s.conditions}) {
      if (*text == "<none>") text->clear();
    }
    if (!s.name.empty()) out.push_back(s);
  }
  return out;
}

int number_in(const std::string& text, int otherwise) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? value : otherwise;
}

class K8sLauncher final : public Launcher {
 public:
  explicit K8sLauncher(const SubmitOptions& options) : namespace_(options.k8s_namespace) {
    PARL_CHECK(!options.image.empty(), "--on k8s wants --image, a container image that has the program");
    settings_.image = options.image;
    settings_.learner_cpus = options.learner_cpus;
    settings_.learner_gpus = options.learner_gpus;
    settings_.learner_memory = parse_memory(options.learner_mem);
  }

  std::string host_of_learner() const override { return ""; }
  bool has_local_learner() const override { return false; }

  void check_tools() const override {
    PARL_CHECK(has_program("kubectl"),
               "there is no 'kubectl' here; install it (Debian: apt-get install "
               "kubernetes-client), and give it a cluster");
  }

  std::string describe(const SubmitPlan& plan) const override {
    std::string out = "# parl submit creates these objects with kubectl. By hand:\n#   ";
    out += plan.token_is_new ? "parl keygen token FILE; " : "";
    out += fmt::format("{} create secret generic {}-token --from-file=token={}\n", shell_join(kubectl({})), plan.name,
                       plan.token_is_new ? "FILE" : shell_quote(plan.token_file));
    out += fmt::format("# then apply this, and at the end:\n#   {}; {} delete secret {}-token\n",
                       shell_join(deletion(plan)), shell_join(kubectl({})), plan.name);
    return out + k8s_service(plan) + "---\n" + k8s_workers(plan, settings_) + "---\n" + k8s_learner(plan, settings_);
  }

  void start(const SubmitPlan& plan, ProcessLoop& loop, Board& board) override {
    plan_ = &plan;
    loop_ = &loop;
    board_ = &board;
    std::string token = read_file(plan.token_file);
    token.erase(token.find_last_not_of(" \t\r\n") + 1);
    is_made_ = true;  // from here on there may be something to delete
    create(k8s_secret(plan, token) + "---\n" + k8s_service(plan) + "---\n" + k8s_workers(plan, settings_));
  }

  void step() override {
    if (is_asking_ || Clock::now() < ask_at_) return;
    is_asking_ = true;
    answer_.clear();
    loop_->start(
        {listing()}, [this](std::string_view line) { answer_.append(line).append("\n"); },
        [this](int code) {
          is_asking_ = false;
          ask_at_ = Clock::now() + kAsk;
          hear(code);
        });
  }

  void start_learner() override { create(k8s_learner(*plan_, settings_)); }

  void stop_learner() override {
    if (is_learner_told_) return;
    is_learner_told_ = true;
    loop_->start({kubectl({"delete", "job", plan_->name + "-learner", "--wait=false", "--ignore-not-found"})}, nullptr,
                 nullptr);
  }

  std::optional<int> learner_code() const override { return learner_code_; }

  void stop() override {
    if (!is_made_) return;
    const Outcome outcome = run_command({deletion(*plan_)}, kEnd);
    if (outcome.code != 0) board_->say("kubectl delete: " + outcome.output);
    const auto deadline = Clock::now() + seconds(5);  // the last lines
    while (loop_->running() > 0 && Clock::now() < deadline) loop_->run_once(milliseconds(100));
    is_made_ = false;
  }

 private:
  std::vector<std::string> kubectl(const std::vector<std::string>& arguments) const {
    std::vector<std::string> argv = {"kubectl"};
    if (!namespace_.empty()) argv.push_back("--namespace=" + namespace_);
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return argv;
  }
  std::vector<std::string> deletion(const SubmitPlan& plan) const {
    return kubectl({"delete", "job,service,secret", "--selector=parl-run=" + plan.name, "--ignore-not-found",
                    "--cascade=foreground", "--timeout=150s"});
  }
  std::vector<std::string> listing() const {
    return kubectl({"get", "pods,jobs", "--selector=parl-run=" + plan_->name, "--no-headers", "--output", kColumns});
  }

  void create(const std::string& manifest) {
    Command command;
    command.argv = kubectl({"create", "--filename=-"});
    command.input = manifest;
    const Outcome outcome = run_command(command, kPatience);
    PARL_CHECK(outcome.code == 0, "kubectl create failed:\n{}", outcome.output);
  }

  void hear(int code) {
    if (code != 0) {
      if (answer_ != complaint_) board_->say("kubectl get: " + answer_);
      complaint_ = answer_;
      return;
    }
    complaint_.clear();
    std::map<int, std::vector<Seen>> pods;
    bool has_failed = false, is_learner_there = false;
    for (const Seen& seen : parse_objects(answer_)) {
      if (seen.kind == "Job") {
        has_failed = has_failed ||
                     (seen.role == "worker" && ("," + seen.conditions + ",").find(",Failed,") != std::string::npos);
      } else if (seen.role == "learner") {
        is_learner_there = true;
        hear_learner(seen);
      } else if (const int index = number_in(seen.index, -1); index >= 0 && index < plan_->workers) {
        pods[index].push_back(seen);
      }
    }
    if (was_learner_there_ && !is_learner_there && !learner_code_) learner_code_ = is_learner_told_ ? 143 : 1;
    was_learner_there_ = was_learner_there_ || is_learner_there;
    for (const auto& [index, seen] : pods) hear_worker(index, seen, has_failed);
  }

  // The pods of one worker: old ones that failed, and the newest.
  void hear_worker(int index, const std::vector<Seen>& pods, bool has_failed) {
    WorkerState state = has_failed ? WorkerState::kFailed : WorkerState::kPending;
    std::string node, why;
    for (const Seen& pod : pods) {
      if (pod.phase != "Pending" && !pod.phase.empty()) follow(pod, index);
      if (pod.phase == "Running") {
        state = WorkerState::kRunning;
        node = pod.node;
      } else if (pod.phase == "Succeeded" && state != WorkerState::kRunning) {
        state = WorkerState::kEnded;
      } else if (pod.phase == "Failed" && reported_.insert(pod.name).second) {
        why = "its pod failed" + (pod.code.empty() ? "" : " with code " + pod.code);
      } else if (!pod.waiting.empty() && pod.waiting != "ContainerCreating" &&
                 reported_.insert(pod.name + pod.waiting).second) {
        why = pod.waiting;
      }
    }
    board_->set(index, state, node, why);
  }

  void hear_learner(const Seen& pod) {
    if (pod.phase == "Pending" || pod.phase.empty()) {
      if (!pod.waiting.empty() && pod.waiting != "ContainerCreating" && reported_.insert(pod.name + pod.waiting).second)
        board_->say("the learner waits: " + pod.waiting);
      return;
    }
    follow(pod, -1);
    if (pod.phase != "Succeeded" && pod.phase != "Failed") return;
    const auto log = followed_.find(pod.name);
    if (log != followed_.end() && loop_->is_running(log->second)) return;  // its last lines first
    learner_code_ = number_in(pod.code, pod.phase == "Succeeded" ? 0 : 1);
  }

  // `worker` -1: the learner, whose lines are ours.
  void follow(const Seen& pod, int worker) {
    if (followed_.count(pod.name) > 0) return;
    ProcessLoop::OnLine on_line = [this, worker](std::string_view line) { board_->line(worker, line); };
    if (worker < 0) {
      on_line = [](std::string_view line) {
        const std::string text = std::string(line) + "\n";
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
      };
    }
    followed_[pod.name] = loop_->start({kubectl({"logs", "--follow", pod.name})}, on_line, nullptr);
  }

  const std::string namespace_;
  K8sSettings settings_;
  const SubmitPlan* plan_ = nullptr;
  ProcessLoop* loop_ = nullptr;
  Board* board_ = nullptr;
  bool is_made_ = false, is_asking_ = false, is_learner_told_ = false, was_learner_there_ = false;
  std::string answer_, complaint_;
  Clock::time_point ask_at_{};
  std::map<std::string, ProcessLoop::Id> followed_;  // pods whose logs are read
  std::set<std::string> reported_;
  std::optional<int> learner_code_;
};

}  // namespace

std::unique_ptr<Launcher> make_k8s_launcher(SubmitOptions& options) { return std::make_unique<K8sLauncher>(options); }

}  // namespace parl::submit
