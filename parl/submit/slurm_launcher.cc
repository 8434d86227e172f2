// Workers as a Slurm job array, one task each. The run's directory lies on the file system that the machines of the
// cluster share: there are the batch script, the token and the workers' logs, which are followed from here. A task
// that fails is put back in the queue by its script, one whose machine fails by Slurm.
#include <sys/stat.h>

#include <charconv>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

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

constexpr seconds kAsk(2), kPatience(60), kEnd(60);
constexpr size_t kMostAtOnce = 256 << 10;  // bytes of one log in one step

// Follows a file that grows.
class Follower {
 public:
  explicit Follower(std::string path) : path_(std::move(path)) {}
  template <typename OnLine>
  void step(OnLine&& on_line) {
    struct stat info {};
    if (::stat(path_.c_str(), &info) != 0 || info.st_size <= at_) return;
    std::ifstream file(path_, std::ios::binary);
    file.seekg(at_);
    std::string text(std::min<size_t>(static_cast<size_t>(info.st_size - at_), kMostAtOnce), '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    at_ += file.gcount();
    partial_ += text;
    size_t begin = 0;
    for (size_t end; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1)
      on_line(std::string_view(partial_).substr(begin, end - begin));
    partial_.erase(0, begin);
  }

 private:
  const std::string path_;
  off_t at_ = 0;
  std::string partial_;
};

// What squeue says of one task.
struct Seen {
  int task = -1;
  std::string state, node;
};

std::vector<Seen> parse_queue(const std::string& text) {
  std::vector<Seen> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    Seen seen;
    std::string task;
    std::istringstream words(line);
    if (!(words >> task >> seen.state)) continue;
    words >> seen.node;
    const auto [end, error] = std::from_chars(task.data(), task.data() + task.size(), seen.task);
    if (error == std::errc() && end == task.data() + task.size()) out.push_back(seen);
  }
  return out;
}

WorkerState state_of(const std::string& slurm) {
  if (slurm == "RUNNING" || slurm == "COMPLETING" || slurm == "STOPPED" || slurm == "SUSPENDED")
    return WorkerState::kRunning;
  if (slurm == "COMPLETED" || slurm == "CANCELLED") return WorkerState::kEnded;
  for (const char* failed : {"FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED"}) {
    if (slurm == failed) return WorkerState::kFailed;
  }
  return WorkerState::kPending;
}

class SlurmLauncher final : public Launcher {
 public:
  void check_tools() const override {
    for (const char* tool : {"sbatch", "squeue", "scancel", "scontrol"})
      PARL_CHECK(has_program(tool),
                 "there is no '{}' here; install Slurm's client (Debian: apt-get install slurm-client)", tool);
  }

  bool writes_logs() const override { return true; }

  std::string describe(const SubmitPlan& plan) const override {
    return fmt::format("# workers: {}\n{}\n# at the end: scancel <job>\n", shell_join(sbatch(plan)), script(plan));
  }

  void start(const SubmitPlan& plan, ProcessLoop& loop, Board& board) override {
    plan_ = &plan;
    loop_ = &loop;
    board_ = &board;
    write_file_atomically(script_file(plan), script(plan));
    for (int i = 0; i < plan.workers; ++i) logs_.emplace_back(plan.log_file(i));
    const Outcome outcome = run_command({sbatch(plan)}, kPatience);
    const std::string first = outcome.output.substr(0, outcome.output.find_first_of(";\n"));
    const bool is_number = !first.empty() && first.find_first_not_of("0123456789") == std::string::npos;
    PARL_CHECK(outcome.code == 0 && is_number, "sbatch refuses the workers:\n{}", outcome.output);
    job_ = first;
    board.say(fmt::format("Slurm job {}: {} tasks", job_, plan.workers));
  }

  void step() override {
    follow_logs();
    if (is_asking_ || Clock::now() < ask_at_) return;
    is_asking_ = true;
    answer_.clear();
    loop_->start(
        {squeue()}, [this](std::string_view line) { answer_.append(line).append("\n"); },
        [this](int code) {
          is_asking_ = false;
          ask_at_ = Clock::now() + kAsk;
          hear(code, answer_);
        });
  }

  void stop() override {
    if (job_.empty()) return;
    write_file_atomically(end_file(*plan_), "");
    const auto deadline = Clock::now() + kEnd;
    for (;;) {  // again and again: a task may be on its way back into the queue
      const Outcome cancelled = run_command({{"scancel", job_}}, kPatience);
      if (cancelled.code != 0) board_->say("scancel: " + cancelled.output);
      const Outcome outcome = run_command({squeue()}, kPatience);
      hear(outcome.code, outcome.output);
      follow_logs();
      if (outcome.code != 0 || (board_->count(WorkerState::kRunning) == 0 && board_->count(WorkerState::kPending) == 0))
        break;
      if (Clock::now() >= deadline) {
        board_->say(fmt::format("job {} has not ended yet; look with: squeue -j {}", job_, job_));
        break;
      }
      std::this_thread::sleep_for(milliseconds(1000));
    }
    job_.clear();
  }

 private:
  static std::string script_file(const SubmitPlan& plan) { return plan.directory + "/workers.sbatch"; }
  static std::string end_file(const SubmitPlan& plan) { return plan.directory + "/ended"; }  // nothing is a failure now

  static std::vector<std::string> sbatch(const SubmitPlan& plan) {
    std::vector<std::string> argv = {"sbatch", "--parsable"};
    argv.insert(argv.end(), plan.site_options.begin(), plan.site_options.end());
    argv.push_back(script_file(plan));
    return argv;
  }

  std::vector<std::string> squeue() const {
    return {"squeue", "--noheader", "--array", "--states=all", "--jobs=" + job_, "--format=%K %T %N"};
  }

  static std::string script(const SubmitPlan& plan) {
    std::string directory = plan.directory;
    for (size_t at = 0; (at = directory.find('%', at)) != std::string::npos; at += 2) directory.insert(at, "%");
    std::string s = "#!/bin/sh\n";
    s += fmt::format("#SBATCH --job-name={}\n#SBATCH --array=0-{}\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task={}\n",
                     plan.name, plan.workers - 1, plan.cpus);
    s += fmt::format("#SBATCH --mem={}M\n", plan.memory >> 20);
    if (plan.gpus > 0) s += fmt::format("#SBATCH --gres=gpu:{}\n", plan.gpus);
    s += fmt::format("#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --output=\"{}/worker-%a.log\"\n",
                     directory);
    s += fmt::format("export PARL_TOKEN_FILE={}\n", shell_quote(plan.token_file));
    for (const auto& [name, value] : plan.worker_environment())
      s += fmt::format("export {}={}\n", name, shell_quote(value));
    s += fmt::format(
        "if [ ! -r \"$PARL_TOKEN_FILE\" ]; then echo \"the token's file cannot be read on $(uname -n): --dir and "
        "--token-file must lie on a file system that all machines share\" >&2; exit 97; fi\n");
    if (!plan.work_directory.empty()) s += fmt::format("cd {} || exit 98\n", shell_quote(plan.work_directory));
    s += "trap 'exit 143' TERM\n";
    s += shell_join(plan.worker_command()) + " </dev/null\nstatus=$?\n";
    s += fmt::format(
        "# A worker ends by itself, with 0, once its learner is gone for good, and by SIGTERM when it is told to; all "
        "else is "
        "a failure.\n"
        "if [ \"$status\" -ne 0 ] && [ \"$status\" -ne 143 ] && [ ! -e {} ] && [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt "
        "{} ]; then\n"
        "  echo \"the worker has ended with code $status: back into the queue\"\n"
        "  scontrol requeue \"${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}\" && sleep 60\nfi\nexit \"$status\"\n",
        shell_quote(end_file(plan)), plan.restarts);
    return s;
  }

  void follow_logs() {
    for (size_t i = 0; i < logs_.size(); ++i)
      logs_[i].step([&](std::string_view line) { board_->line(static_cast<int>(i), line); });
  }

  void hear(int code, const std::string& text) {
    if (code != 0) {  // the controller may be away for a while
      if (text != complaint_) board_->say("squeue: " + text);
      complaint_ = text;
      return;
    }
    complaint_.clear();
    std::vector<bool> is_listed(logs_.size(), false);
    for (const Seen& seen : parse_queue(text)) {
      if (seen.task < 0 || seen.task >= plan_->workers) continue;
      is_listed[static_cast<size_t>(seen.task)] = true;
      const WorkerState state = state_of(seen.state);
      const bool is_news = state == WorkerState::kFailed && board_->state(seen.task) != state;
      board_->set(seen.task, state, seen.node, is_news ? "Slurm says " + seen.state : "");
    }
    for (size_t i = 0; i < is_listed.size(); ++i) {  // Slurm forgets jobs some minutes after their end
      const int task = static_cast<int>(i);
      if (!is_listed[i] && board_->state(task) != WorkerState::kFailed) board_->set(task, WorkerState::kEnded);
    }
  }

  const SubmitPlan* plan_ = nullptr;
  ProcessLoop* loop_ = nullptr;
  Board* board_ = nullptr;
  std::string job_, answer_, complaint_;
  std::vector<Follower> logs_;
  bool is_asking_ = false;
  Clock::time_point ask_at_{};
};

}  // namespace

std::unique_ptr<Launcher> make_slurm_launcher(SubmitOptions&) { return std::make_unique<SlurmLauncher>(); }

}  // namespace parl::submit
