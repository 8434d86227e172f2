// PythonProcess: a Python interpreter that runs a script, a socket to it (its descriptor 3) and memory shared with it
// (its descriptor 4). Internal to env_gym.
//
// It ends with this object (the socket's end asks it to, two seconds later it is killed) and with the program: the
// kernel kills it then, whatever it is doing. Every descriptor is closed on exec, in both. SIGINT is blocked in it; its
// standard output is standard error, its input empty.
// Thread rule: one thread at a time. Errors: parl::Error saying what became of the process.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace parl::internal {

class PythonProcess {
 public:
  // `who` begins every message.
  PythonProcess(const std::string& python, const std::string& script, std::string who);
  ~PythonProcess();
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;

  int pid() const { return pid_; }
  // Whether the process could be talked to when it was last tried; never again true once false.
  bool is_alive() const { return alive_; }

  // While it starts, what it waits for may be slow (imports, an environment's constructor): a log line says so after
  // five seconds, and a wait ends with Interrupted where the program was asked to end (core/interrupt.h).
  void set_starting(bool is_starting) { is_starting_ = is_starting; }

  // `what` is being asked for, for messages: "step()". Blocks at most `timeout` seconds; after that the process is
  // killed.
  void send(std::string_view bytes, const char* what);
  void receive(void* bytes, size_t count, double timeout, const char* what);
  void send_text(const std::string& text, const char* what);  // a length of four bytes goes first
  std::string receive_text(double timeout, const char* what);

  // Makes the shared memory that large and maps it. Once.
  std::byte* map(size_t bytes);

 private:
  [[noreturn]] void fail_gone(const char* what);
  void look_at_start(double silent, double timeout, const char* what);
  void kill_and_reap();

  const std::string who_;
  int pid_ = -1, socket_ = -1, memory_fd_ = -1, lifeline_ = -1;
  int status_ = 0;
  bool alive_ = false, reaped_ = false, is_starting_ = false, is_slow_ = false;
  std::byte* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace parl::internal
