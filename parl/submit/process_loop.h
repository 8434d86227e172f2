// Runs programs beside each other from one thread: what they print and their ends are callbacks of run_once().
//
// Each program has a process group of its own, so that Ctrl-C in a terminal reaches the caller alone, who ends them in
// order. If this process is killed they get SIGTERM. No descriptor of ours but its own pipes is inherited.
// Thread rule: one thread; the one that calls start() must live as long as the programs. Throws parl::Error: no such
// program, no more processes or descriptors.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace parl::submit {

struct Command {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> environment = {};  // added to, or replacing, ours
  std::string input = {};                                             // what it finds on stdin
  bool keeps_input_open = false;                                      // until close_input() or our end
  bool is_shown = false;                                              // its stdout and stderr are ours: no lines
};

class ProcessLoop {
 public:
  using Id = int;
  using OnLine = std::function<void(std::string_view line)>;  // stdout and stderr, without the newline
  using OnExit = std::function<void(int code)>;               // after its last line; 128 + signal when it was killed

  static constexpr size_t kMaxLine = 8192;  // longer ones come in pieces

  ProcessLoop() = default;
  ~ProcessLoop();  // kills what still runs
  ProcessLoop(const ProcessLoop&) = delete;
  ProcessLoop& operator=(const ProcessLoop&) = delete;

  // The callbacks may call every method but run_once().
  Id start(const Command& command, OnLine on_line, OnExit on_exit);
  bool is_running(Id id) const { return processes_.count(id) > 0; }
  size_t running() const { return processes_.size(); }
  void close_input(Id id);
  void signal(Id id, int signal);  // to its process group; one that has ended is no error
  // Waits at most `timeout` for something to happen, and calls back for all that has.
  void run_once(std::chrono::milliseconds timeout);

 private:
  struct Process {
    pid_t pid = -1;
    int input = -1, output = -1;
    bool keeps_input_open = false;
    std::string pending;  // input not written yet
    std::string partial;  // a line not finished yet
    OnLine on_line;
    OnExit on_exit;
  };
  void write_input(Process& process);
  void read_output(Id id);
  void deliver(Id id, std::string_view line);
  void look_after(Id id);

  std::map<Id, Process> processes_;
  Id next_ = 1;
};

struct Outcome {
  int code = 0;
  std::string output;  // stdout and stderr
};
// Waits for the program's end; past `timeout` it is killed, and an Error says so.
Outcome run_command(const Command& command, std::chrono::milliseconds timeout);

// Whether PATH (or, with a slash, the file system) has this program.
bool has_program(const std::string& name);

}  // namespace parl::submit
