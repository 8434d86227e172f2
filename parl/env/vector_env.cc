#include "parl/env/vector_env.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "parl/core/rng.h"
#include "parl/env/state_io.h"

namespace parl {
namespace {

enum class Job { kReset, kStep };

// One environment and all that its next job needs. Written by the owner while idle, by one worker while busy.
struct alignas(64) Slot {
  std::unique_ptr<Env> env;
  Job job = Job::kReset;
  std::optional<uint64_t> seed;  // of the next reset
  std::span<std::byte> place;    // where the next observation goes
  int64_t index = 0;             // the action: an index, values or several indices
  std::vector<float> values;
  std::vector<int64_t> indices;
  StepResult result;
  std::vector<std::byte> final_obs;  // of the latest truncated episode
  bool has_final = false;
  bool busy = false;  // sent and not received: owner's view
  std::string error;  // what the job threw
  bool failed = false;

  Action action() const { return {index, values, indices}; }
};

void step_slot(Slot& slot) {
  slot.has_final = false;
  slot.result = slot.env->step(slot.action(), slot.place);
  if (!slot.result.done()) return;
  if (slot.result.truncated && !slot.result.terminated) {
    std::memcpy(slot.final_obs.data(), slot.place.data(), slot.final_obs.size());
    slot.has_final = true;
  }
  slot.env->reset({}, slot.place);
}

// Never throws: an error stays in the slot until the owner collects it.
void run_slot(Slot& slot) {
  try {
    if (slot.job == Job::kReset) {
      slot.has_final = false;
      slot.result = {};
      slot.env->reset(slot.seed, slot.place);
    } else {
      step_slot(slot);
    }
  } catch (const std::exception& e) {
    slot.failed = true;
    slot.error = e.what();
  } catch (...) {
    slot.failed = true;
    slot.error = "an exception that is not a std::exception";
  }
}

// A queue of slot numbers that never allocates: every slot is in it at most once.
class Ring {
 public:
  explicit Ring(size_t capacity) : items_(capacity) {}
  void push(int item) { items_[(first_ + size_++) % items_.size()] = item; }
  int pop() {
    const int item = items_[first_];
    first_ = (first_ + 1) % items_.size();
    --size_;
    return item;
  }
  size_t size() const { return size_; }

 private:
  std::vector<int> items_;
  size_t first_ = 0, size_ = 0;
};

// Threads that take the first waiting slot, run its job and report it ready. Sleeps on condition variables, never
// spins.
class Pool {
 public:
  Pool(std::vector<Slot>& slots, int threads) : slots_(slots), waiting_(slots.size()), ready_(slots.size()) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this](std::stop_token stop) { work(stop); });
    }
  }

  // Starts the jobs of the slots `first`, `first` + 1, ... or of those named.
  template <typename Indices>
  void start(const Indices& which) {
    {
      std::lock_guard lock(mutex_);
      for (int i : which) waiting_.push(i);
    }
    if (which.size() == 1) {
      work_.notify_one();
    } else {
      work_.notify_all();
    }
  }

  // Waits until `minimum` slots are ready and moves all that are to the end of `out`.
  void collect(size_t minimum, std::vector<int>& out) {
    std::unique_lock lock(mutex_);
    wanted_ = minimum;
    done_.wait(lock, [&] { return ready_.size() >= minimum; });
    wanted_ = 0;
    while (ready_.size() > 0) out.push_back(ready_.pop());
  }

 private:
  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (work_.wait(lock, stop, [&] { return waiting_.size() > 0; })) {
      const int i = waiting_.pop();
      lock.unlock();
      run_slot(slots_[static_cast<size_t>(i)]);
      lock.lock();
      ready_.push(i);
      if (wanted_ > 0 && ready_.size() >= wanted_) done_.notify_one();
      if (stop.stop_requested()) return;
    }
  }

  std::vector<Slot>& slots_;
  std::mutex mutex_;
  std::condition_variable_any work_;
  std::condition_variable done_;
  Ring waiting_, ready_;
  size_t wanted_ = 0;
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

}  // namespace

struct VectorEnv::Impl {
  explicit Impl(Options options) : options(options), slots(static_cast<size_t>(options.count)) {
    all.reserve(slots.size());
    ready.reserve(slots.size());
    for (int i = 0; i < options.count; ++i) all.push_back(i);
  }

  Slot& slot(int index) {
    PARL_CHECK(index >= 0 && index < options.count, "this vector has environments 0..{}, not {}", options.count - 1,
               index);
    return slots[static_cast<size_t>(index)];
  }

  void make(const Factory& factory) {
    PARL_CHECK(static_cast<bool>(factory), "a VectorEnv needs a factory of environments");
    for (int i = 0; i < options.count; ++i) {
      Slot& slot = slots[static_cast<size_t>(i)];
      slot.env = factory(i);
      PARL_CHECK(slot.env != nullptr, "the factory made no environment for index {}", i);
      const EnvSpec& spec = slot.env->spec();
      const EnvSpec& first = slots[0].env->spec();
      PARL_CHECK(spec.observation == first.observation && spec.parts == first.parts && spec.action == first.action,
                 "environments of one vector must be of one kind: '{}' and '{}' differ in their spaces", spec.id,
                 first.id);
      slot.final_obs.resize(spec.observation.bytes());
      slot.values.resize(floats());
      slot.indices.resize(indices() > 1 || !is_discrete() ? indices() : 0);
      begins_steps = slot.env->can_begin_step();
    }
  }

  // Of one action.
  bool is_discrete() const { return std::holds_alternative<Discrete>(action_space()); }
  size_t floats() const {
    const auto* box = std::get_if<Box>(&action_space());
    return box ? static_cast<size_t>(box->size()) : 0;
  }
  size_t indices() const { return choices_of(action_space()).size(); }
  const Space& action_space() const { return slots[0].env->spec().action; }

  void place(Slot& slot, int index, const ObsPlace& obs) {
    slot.place = obs(index);
    PARL_CHECK_EQ(slot.place.size(), slot.final_obs.size(), "the place for environment {} must fit one observation",
                  index);
  }

  void check_actions(size_t steps, std::span<const int64_t> indices, std::span<const float> values) const {
    const size_t size = slots[0].values.size();
    if (size == 0) {
      const size_t each = std::max<size_t>(1, slots[0].indices.size());
      PARL_CHECK_EQ(indices.size(), steps * each, "{} per environment",
                    each == 1 ? "one action index" : fmt::format("{} action indices", each));
      PARL_CHECK(values.empty(), "'{}' takes indices, not values", slots[0].env->spec().id);
    } else {
      PARL_CHECK_EQ(values.size(), steps * size, "{} action values per environment", size);
      PARL_CHECK(indices.empty(), "'{}' takes values, not indices", slots[0].env->spec().id);
    }
  }

  // Action number k of the caller's arrays becomes the next job of `slot`.
  void set_step(Slot& slot, size_t k, std::span<const int64_t> indices, std::span<const float> values) {
    slot.job = Job::kStep;
    if (!slot.values.empty()) {
      std::memcpy(slot.values.data(), &values[k * slot.values.size()], slot.values.size() * sizeof(float));
    } else if (!slot.indices.empty()) {
      std::memcpy(slot.indices.data(), &indices[k * slot.indices.size()], slot.indices.size() * sizeof(int64_t));
    } else {
      slot.index = indices[k];
    }
    slot.env->prepare(slot.action());
  }

  void run_all() {
    if (!pool) {
      if (begins_steps) begin_all();
      for (Slot& slot : slots) run_slot(slot);
    } else {
      pool->start(all);
      ready.clear();
      pool->collect(slots.size(), ready);
    }
    throw_first_error(all);
  }

  // All environments that work elsewhere at once. An error comes up again in the step itself.
  void begin_all() {
    for (Slot& slot : slots) {
      if (slot.job != Job::kStep) continue;
      try {
        slot.env->begin_step(slot.action());
      } catch (const std::exception& e) {
        slot.failed = true;
        slot.error = e.what();
      }
    }
  }

  // After an error nothing goes on before reset().
  void throw_first_error(std::span<const int> which) {
    for (int i : which) {
      Slot& slot = slots[static_cast<size_t>(i)];
      if (!slot.failed) continue;
      needs_reset = true;
      throw Error(fmt::format("environment {} ('{}'): {}", options.first_index + i, slot.env->spec().id, slot.error));
    }
  }

  void check_idle(const char* what) const {
    PARL_CHECK_EQ(in_flight, 0, "{}: environments are on their way; receive() them first", what);
  }
  void check_started() const {
    PARL_CHECK(!needs_reset, "call reset() first: the vector is new, or an environment has failed");
  }

  Options options;
  std::vector<Slot> slots;
  std::vector<int> all, ready;
  bool seeded = false, needs_reset = true;
  bool begins_steps = false;  // Env::can_begin_step
  int in_flight = 0;
  std::unique_ptr<Pool> pool;  // last: its threads use the slots
};

VectorEnv::VectorEnv(Options options, const Factory& factory) {
  PARL_CHECK_GT(options.count, 0, "a vector holds at least one environment");
  PARL_CHECK_GT(options.threads, 0, "threads = 1 steps in the caller's thread");
  impl_ = std::make_unique<Impl>(options);
  impl_->make(factory);
  if (options.threads > 1) impl_->pool = std::make_unique<Pool>(impl_->slots, std::min(options.threads, options.count));
}

VectorEnv::~VectorEnv() = default;

int VectorEnv::count() const { return impl_->options.count; }
const EnvSpec& VectorEnv::spec() const { return impl_->slots[0].env->spec(); }
Env& VectorEnv::env(int index) {
  Slot& slot = impl_->slot(index);
  PARL_CHECK(!slot.busy, "environment {} is on its way; receive() it first", index);
  return *slot.env;
}

void VectorEnv::reset(const ObsPlace& obs) {
  if (impl_->in_flight > 0) {
    std::vector<int> drained;
    impl_->pool->collect(static_cast<size_t>(impl_->in_flight), drained);
    impl_->in_flight = 0;
  }
  for (int i = 0; i < count(); ++i) {
    Slot& slot = impl_->slot(i);
    slot.busy = slot.failed = false;
    slot.job = Job::kReset;
    slot.seed.reset();
    if (!impl_->seeded)
      slot.seed = derive_seed(impl_->options.seed, static_cast<uint64_t>(impl_->options.first_index + i));
    slot.env->prepare_reset(slot.seed);
    impl_->place(slot, i, obs);
  }
  impl_->needs_reset = true;
  impl_->run_all();
  impl_->seeded = true;
  impl_->needs_reset = false;
}

void VectorEnv::step(std::span<const int64_t> indices, std::span<const float> values, const ObsPlace& obs,
                     std::span<StepResult> results) {
  impl_->check_started();
  impl_->check_idle("step()");
  impl_->check_actions(impl_->slots.size(), indices, values);
  PARL_CHECK_EQ(results.size(), impl_->slots.size(), "one result per environment");
  for (int i = 0; i < count(); ++i) {
    Slot& slot = impl_->slots[static_cast<size_t>(i)];
    impl_->set_step(slot, static_cast<size_t>(i), indices, values);
    impl_->place(slot, i, obs);
  }
  impl_->run_all();
  for (size_t i = 0; i < results.size(); ++i) results[i] = impl_->slots[i].result;
}

std::span<const std::byte> VectorEnv::final_observation(int index) const {
  const Slot& slot = impl_->slot(index);
  PARL_CHECK(!slot.busy, "environment {} is on its way; receive() it first", index);
  return slot.has_final ? std::span<const std::byte>(slot.final_obs) : std::span<const std::byte>();
}

void VectorEnv::send(std::span<const int> which, std::span<const int64_t> indices, std::span<const float> values,
                     const ObsPlace& obs) {
  PARL_CHECK(impl_->pool != nullptr, "send() needs a pool: a vector of several environments with threads > 1");
  impl_->check_started();
  impl_->check_actions(which.size(), indices, values);
  for (size_t k = 0; k < which.size(); ++k) {
    Slot& slot = impl_->slot(which[k]);
    PARL_CHECK(!slot.busy, "environment {} was sent already; receive() it first", which[k]);
    for (size_t other = 0; other < k; ++other) PARL_CHECK_NE(which[other], which[k], "an environment is named twice");
  }
  for (size_t k = 0; k < which.size(); ++k) {
    Slot& slot = impl_->slot(which[k]);
    impl_->set_step(slot, k, indices, values);
    impl_->place(slot, which[k], obs);
  }
  for (int i : which) impl_->slot(i).busy = true;
  impl_->in_flight += static_cast<int>(which.size());
  impl_->pool->start(which);
}

std::span<const int> VectorEnv::receive(int minimum) {
  PARL_CHECK(minimum > 0 && minimum <= impl_->in_flight,
             "receive({}) would wait forever: {} environments are on their way", minimum, impl_->in_flight);
  impl_->ready.clear();
  impl_->pool->collect(static_cast<size_t>(minimum), impl_->ready);
  impl_->in_flight -= static_cast<int>(impl_->ready.size());
  for (int i : impl_->ready) impl_->slot(i).busy = false;
  impl_->throw_first_error(impl_->ready);
  return impl_->ready;
}

const StepResult& VectorEnv::result(int index) const {
  const Slot& slot = impl_->slot(index);
  PARL_CHECK(!slot.busy, "environment {} is on its way; receive() it first", index);
  return slot.result;
}

void VectorEnv::take_episodes(std::vector<Episode>& out) {
  for (Slot& slot : impl_->slots) {
    if (!slot.busy) slot.env->take_episodes(out);
  }
}

bool VectorEnv::can_save_state() const { return impl_->slots[0].env->can_save_state(); }

std::vector<std::byte> VectorEnv::save_state() const {
  impl_->check_idle("save_state()");
  StateWriter out;
  out.put(impl_->options.count);
  out.put(impl_->options.first_index);
  out.put(impl_->seeded);
  out.put(impl_->needs_reset);
  for (const Slot& slot : impl_->slots) {
    out.put_bytes(slot.env->save_state());
    out.put(slot.result);
    out.put_bytes(std::span(slot.final_obs).first(slot.has_final ? slot.final_obs.size() : 0));
  }
  return out.take();
}

void VectorEnv::load_state(std::span<const std::byte> state) {
  impl_->check_idle("load_state()");
  StateReader in(state);
  int count = 0;
  int64_t first_index = 0;
  in.get(count);
  in.get(first_index);
  PARL_CHECK_EQ(count, impl_->options.count, "the saved vector had another number of environments");
  PARL_CHECK_EQ(first_index, impl_->options.first_index, "the saved vector stood elsewhere among the environments");
  in.get(impl_->seeded);
  in.get(impl_->needs_reset);
  for (Slot& slot : impl_->slots) {
    slot.env->load_state(in.block());
    in.get(slot.result);
    const auto final_obs = in.block();
    slot.has_final = !final_obs.empty();
    if (slot.has_final) {
      PARL_CHECK_EQ(final_obs.size(), slot.final_obs.size(), "the saved vector had other observations");
      std::memcpy(slot.final_obs.data(), final_obs.data(), final_obs.size());
    }
    slot.failed = false;
  }
  in.finish();
}

}  // namespace parl
