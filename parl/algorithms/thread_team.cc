#include "parl/algorithms/thread_team.h"

#include <ATen/Parallel.h>

#include "parl/core/check.h"

namespace parl {

ThreadTeam::ThreadTeam(int members) {
  PARL_CHECK(members >= 1, "a team needs at least one thread, got {}", members);
  errors_.resize(static_cast<size_t>(members));
  for (int i = 1; i < members; ++i) threads_.emplace_back([this, i] { serve(i); });
}

ThreadTeam::~ThreadTeam() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::run(const std::function<void(int)>& f) {
  {
    std::lock_guard lock(mutex_);
    function_ = &f;
    ++round_;
    running_ = size() - 1;
    std::fill(errors_.begin(), errors_.end(), nullptr);
  }
  start_.notify_all();
  call(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
  function_ = nullptr;
  for (const std::exception_ptr& error : errors_) {
    if (error) std::rethrow_exception(error);
  }
}

void ThreadTeam::call(int member) {
  try {
    (*function_)(member);
  } catch (...) {
    errors_[static_cast<size_t>(member)] = std::current_exception();
  }
}

void ThreadTeam::serve(int member) {
  at::set_num_threads(1);
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    start_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    lock.unlock();
    call(member);
    lock.lock();
    if (--running_ == 0) done_.notify_all();
  }
}

}  // namespace parl
