// ThreadTeam: N threads that run one function together, call after call. The caller is member 0.
//
// run(f) calls f(0) .. f(N-1) at once and returns when all have; if some threw, the exception of the lowest number is
// rethrown. Every other member has one intra-op thread in torch. Thread rule: one caller at a time.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace parl {

class ThreadTeam {
 public:
  explicit ThreadTeam(int members);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return static_cast<int>(errors_.size()); }
  void run(const std::function<void(int)>& f);

 private:
  void serve(int member);
  void call(int member);

  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(int)>* function_ = nullptr;
  uint64_t round_ = 0;
  int running_ = 0;
  bool stop_ = false;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;
};

}  // namespace parl
