// LearnerGroup: the learners of one run on several GPUs or machines, tied together by libtorch's c10d: Gloo between
// CPUs and for everything small, NCCL for gradients on GPUs where this libtorch has it.
//
//   LearnerGroup group({.rank = 1, .size = 2, .host = "10.0.0.1", .port = 29500});
//   group.join();                        // waits for the others; learner 0 is the meeting place
//   algorithm.set_reducer(...);          // it is a GradientReducer: sums in a fixed order, the same bits everywhere
//   std::vector<std::string> all = group.gather("what this learner has to tell");
//
// All learners make the same calls in the same order. No call waits longer than `timeout`: a learner whose process has
// died is noticed at once (its connections close), one that hangs or whose machine is gone after `timeout`. The error
// is LearnerLost and names the learner where that can be known; the group is of no use afterwards.
// Nothing here is authenticated or encrypted: whoever reaches the ports may join and disturb. Sockets are bound to the
// address of `host` (loopback: to nothing else), at the others to the address that leads there. Trust that network.
// Thread rule: one thread at a time. Throws parl::Error.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parl/algorithms/gradient_reducer.h"
#include "parl/core/check.h"

namespace parl {

// Another learner is gone, or does not answer.
class LearnerLost : public Error {
 public:
  using Error::Error;
};

class LearnerGroup final : public GradientReducer {
 public:
  struct Options {
    int rank = 0, size = 1;
    std::string host = "127.0.0.1";  // learner 0's
    int port = 0;                    // 0 at learner 0: any free one
    bool serve = true;               // false: somebody else is the meeting place (torchrun), also for learner 0
    double timeout = 300;            // seconds
    std::string device = "cpu";      // where gradients are
  };

  // Does this build have c10d with Gloo?
  static bool available();

  // Learner 0 opens the meeting place, and does not wait for anybody.
  explicit LearnerGroup(Options options);
  ~LearnerGroup() override;
  LearnerGroup(const LearnerGroup&) = delete;
  LearnerGroup& operator=(const LearnerGroup&) = delete;

  int port() const;
  // Blocks until all are there, at most `timeout`. `meanwhile` is called a few times a second and may throw.
  void join(const std::function<void()>& meanwhile = {});

  int rank() const override;
  int size() const override;
  void sum(at::Tensor& flat) override;
  void sum(std::span<double> values) override;
  // What each learner gave, in the order of their ranks.
  std::vector<std::string> gather(const std::string& mine);
  // What learner 0 gave.
  std::string from_first(const std::string& mine);
  // "1 (host trainer-b, pid 4711)"
  std::string name_of(int rank) const;

  // Leaves, telling the others why: they get the reason instead of a closed connection.
  void leave(const std::string& reason) noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parl
