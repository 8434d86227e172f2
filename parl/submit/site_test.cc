#include "parl/submit/site_test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "parl/core/files.h"
#include "parl/remote/keygen.h"
#include "parl/submit/quote.h"
#include "parl/submit/submit.h"

namespace parl::submit {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

void redirect(const std::string& file, std::initializer_list<int> targets) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  for (const int target : targets) ::dup2(fd, target);
  ::close(fd);
}

std::string command_line(const fs::path& process, const std::string& where = "cmdline") {
  std::string text = contents_or_empty((process / where).string());
  for (char& c : text) c = c == '\0' ? ' ' : c;
  return text;
}

}  // namespace

bool eventually(const std::function<bool()>& is_true, std::chrono::seconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    if (is_true()) return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

int free_port_for_test() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

std::string contents_or_empty(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream out;
  if (in) out << in.rdbuf();  // a process, and its files in /proc, may vanish at any time: no exception
  return out.str();
}

std::vector<pid_t> processes_with(const std::string& text, const std::string& where) {
  std::vector<pid_t> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || name == std::to_string(::getpid())) continue;
    // A shell that has it in its script is not meant.
    const std::string line = command_line(entry.path(), where);
    if (line.find(text) != std::string::npos && line.find("sh -c") == std::string::npos) out.push_back(std::stoi(name));
  }
  return out;
}

bool is_in_a_command_line(const std::string& text) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    if (command_line(entry.path()).find(text) != std::string::npos) return true;
  }
  return false;
}

Daemon::Daemon(std::vector<std::string> argv, std::string output_file, const Environment& environment) {
  std::vector<char*> pointers;
  for (std::string& word : argv) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::setsid();
    redirect("/dev/null", {STDIN_FILENO});
    redirect(output_file, {STDOUT_FILENO, STDERR_FILENO});
    ::execvp(pointers[0], pointers.data());
    ::_exit(127);
  }
}

bool Daemon::is_running() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

Daemon::~Daemon() {
  if (!is_running()) return;
  ::kill(pid_, SIGTERM);
  if (eventually([this] { return !is_running(); }, std::chrono::seconds(15))) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

SubmitProcess::SubmitProcess(const SubmitOptions& options, const std::string& folder)
    : out_(folder + "/out"), err_(folder + "/err") {
  pid_ = ::fork();
  if (pid_ != 0) return;
  redirect("/dev/null", {STDIN_FILENO});
  redirect(out_, {STDOUT_FILENO});
  redirect(err_, {STDERR_FILENO});
  int code = 1;
  try {
    code = run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "parl: %s\n", error.what());
  }
  ::_exit(code);
}

SubmitProcess::~SubmitProcess() {
  if (has_ended_) return;
  ::kill(pid_, SIGTERM);  // so that it takes its workers with it
  if (wait(std::chrono::seconds(30)) >= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void SubmitProcess::signal(int signal) const { ::kill(pid_, signal); }

int SubmitProcess::wait(std::chrono::seconds timeout) {
  int status = 0;
  has_ended_ = has_ended_ || eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, timeout);
  if (!has_ended_) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool SubmitProcess::says(const std::string& text, std::chrono::seconds timeout) const {
  return eventually([&] { return (out() + err()).find(text) != std::string::npos; }, timeout);
}

void SiteTest::SetUp() {
  folder_ = fmt::format("{}parl-submit-test-{}", testing::TempDir(), ::getpid());
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  token_file_ = folder_ + "/secret";
  make_token(token_file_);
  token_ = read_file(token_file_);
  token_.pop_back();
  port_ = free_port_for_test();
}

void SiteTest::TearDown() {
  if (!HasFailure() && !folder_.empty()) fs::remove_all(folder_);  // empty: skipped
}

SubmitOptions SiteTest::options(Site site) const {
  SubmitOptions o;
  o.on = site;
  o.workers = 2;
  o.mem = "100M";
  o.address = fmt::format("127.0.0.1:{}", port_);
  o.token_file = token_file_;
  o.dir = folder_ + "/run";
  o.program = {hello_program()};
  return o;
}

std::string SiteTest::hello_program() { return PARL_HELLO_REMOTE; }

std::string SiteTest::waiting_program() const {
  const std::string file = folder_ + "/waits.sh";
  write_file_atomically(file, fmt::format("#!/bin/sh\n"
                                          "case \"$1\" in --parl-worker) exec {0} \"$@\";; esac\n"
                                          "trap 'echo learner ends; exit 7' INT TERM\n"
                                          "echo learner $$ waits\n"
                                          "while [ ! -e {1} ]; do sleep 0.05; done\nexit 3\n",
                                          shell_quote(hello_program()), shell_quote(folder_ + "/go")));
  ::chmod(file.c_str(), 0755);
  return file;
}

void SiteTest::go() const { write_file_atomically(folder_ + "/go", ""); }

void SiteTest::expect_token_is_secret(const SubmitProcess& submit) const {
  EXPECT_FALSE(is_in_a_command_line(token_));
  EXPECT_EQ(submit.out().find(token_), std::string::npos);
  EXPECT_EQ(submit.err().find(token_), std::string::npos);
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder_, error); !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    const fs::path file = it->path();
    if (!it->is_regular_file(error) || file == token_file_ || file.filename() == "token")
      continue;  // its own files, which nobody else can read
    EXPECT_EQ(contents_or_empty(file).find(token_), std::string::npos) << file;
  }
}

}  // namespace parl::submit
