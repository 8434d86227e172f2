// PredictionQueue: where environments wait for their next actions, and from where predictors take them in batches.
//
// Dynamic (default): a predictor takes what is there, oldest first, until the batch has max_rows rows; a batch that is
// not full waits for more, at most `wait` from its oldest request on, and not when everybody is there already.
// Lock-step (deterministic runs): a batch is everybody that is in the oldest rollout not yet finished, in order of the
// actors. So its composition depends on nothing but the rollouts' numbers; an actor that begins its rollout again (its
// environment died) holds up the others, but never forever.
// Thread rule: any thread; one asking thread per actor. close() wakes everybody. A request that is being answered when
// the queue closes is still answered before ask() returns, so requests may live on the asker's stack.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "parl/agent/weights.h"
#include "parl/core/clock.h"
#include "parl/wire/versioned.h"

namespace parl {

struct PredictionRequest {
  int actor = 0;
  at::Tensor obs;                             // [B, ...obs_shape]
  at::Tensor uniforms;                        // [B] or [B, A]: Algorithm::sample()'s
  at::Tensor memory;                          // [B, S]: a recurrent network's, before obs; undefined: it has none
  std::optional<Versioned<Weights>> weights;  // to act with exactly these; empty: the newest

  // The answer.
  at::Tensor action;       // [B] int64, [B, K] int64 or [B, A] float32
  at::Tensor logits;       // [B, A] float32
  at::Tensor next_memory;  // [B, S]: after obs; rows of the whole batch's
  int64_t version = -1;    // of the weights that acted
  double seconds = 0;      // its share of the forward pass
  std::exception_ptr error;

  // The queue's own.
  enum class State { kWaiting, kTaken, kAnswered } state = State::kWaiting;
  Clock::time_point asked;
};

class PredictionQueue {
 public:
  struct Options {
    int actors = 1;
    int64_t max_rows = 128;
    std::chrono::nanoseconds wait{0};
    bool lock_step = false;
    int64_t first_sequence = 0;  // lock-step: the rollout that every actor makes first
  };
  explicit PredictionQueue(Options options);

  // Waits for the answer. False: closed. Throws the answer's error.
  bool ask(PredictionRequest& request);
  // Lock-step: the actor's present rollout is finished; its next request belongs to the one after it.
  void finish_rollout(int actor);

  // Waits for a batch; all of its requests want the same weights. Empty: closed. Give every batch back by answer().
  std::vector<PredictionRequest*> take();
  void answer(const std::vector<PredictionRequest*>& batch);

  void close();

  // Since the last call; means over batches, NaN without one.
  struct Figures {
    int64_t batches = 0;
    double rows = 0;        // of a batch
    double left_share = 0;  // actors whose requests were left waiting, 0..1
    double wait_ms = 0;     // from asking to being taken, per request
  };
  Figures take_figures();

 private:
  using Lock = std::unique_lock<std::mutex>;
  int64_t rows_waiting() const;
  bool round_complete() const;
  std::vector<PredictionRequest*> take_round();
  std::vector<PredictionRequest*> take_oldest();
  void count(const std::vector<PredictionRequest*>& batch);

  const Options options_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<std::condition_variable> answered_;  // of each actor
  std::deque<PredictionRequest*> waiting_;
  std::vector<int64_t> sequence_;  // lock-step: of each actor's present rollout
  bool closed_ = false;
  int64_t batches_ = 0, requests_ = 0;
  double rows_ = 0, left_ = 0, wait_seconds_ = 0;
};

}  // namespace parl
