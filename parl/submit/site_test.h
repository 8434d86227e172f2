// What the tests against real sites share: a folder, a learner that waits to be told, `parl submit` in a process of its
// own whose output is watched, daemons that end with the test, and a look at who runs on this machine.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "parl/submit/options.h"
#include "parl/submit/process_loop.h"

namespace parl::submit {

using Environment = std::map<std::string, std::string>;

// Asks again and again; false: `timeout` is over. Sites are slow, and so are machines that do other things besides.
bool eventually(const std::function<bool()>& is_true, std::chrono::seconds timeout = std::chrono::seconds(120));

int free_port_for_test();
std::string contents_or_empty(const std::string& file);

// Processes of this machine with `text` in their command lines (or "environ": as they were started), this one left out.
std::vector<pid_t> processes_with(const std::string& text, const std::string& where = "cmdline");
// Whether `text` stands in any command line.
bool is_in_a_command_line(const std::string& text);

// A daemon that is stopped by its pid. Its output goes to a file.
class Daemon {
 public:
  Daemon(std::vector<std::string> argv, std::string output_file, const Environment& environment = {});
  ~Daemon();  // SIGTERM, then SIGKILL
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  bool is_running();

 private:
  pid_t pid_ = -1;
};

// run(options) in a child process.
class SubmitProcess {
 public:
  SubmitProcess(const SubmitOptions& options, const std::string& folder);
  ~SubmitProcess();  // killed, if it still runs
  SubmitProcess(const SubmitProcess&) = delete;
  SubmitProcess& operator=(const SubmitProcess&) = delete;

  void signal(int signal) const;
  int wait(std::chrono::seconds timeout = std::chrono::seconds(120));  // its exit code; -1: it does not end
  std::string out() const { return contents_or_empty(out_); }
  std::string err() const { return contents_or_empty(err_); }
  bool says(const std::string& text, std::chrono::seconds timeout = std::chrono::seconds(120)) const;

 private:
  const std::string out_, err_;
  pid_t pid_ = -1;
  bool has_ended_ = false;
};

class SiteTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // 2 workers of a token that the test knows, with the learner at 127.0.0.1.
  SubmitOptions options(Site site) const;
  // As a worker: examples/hello_remote. As a learner: says "learner <pid> waits", ends with 3 once the file "go" is
  // there, and with 7 on SIGINT or SIGTERM.
  std::string waiting_program() const;
  static std::string hello_program();
  void go() const;
  // Workers of this test: they all have its folder in their environment or its port in their command line.
  std::vector<pid_t> workers() const {
    return processes_with("--parl-worker tcp://127.0.0.1:" + std::to_string(port_));
  }
  bool has_no_workers() const {
    return eventually([this] { return workers().empty(); });
  }
  // The token is in no output, no file but its own, and no command line.
  void expect_token_is_secret(const SubmitProcess& submit) const;

  std::string folder_, token_file_, token_;
  int port_ = 0;
};

}  // namespace parl::submit
