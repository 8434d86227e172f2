#include "parl/env/env_conformance.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "parl/core/rng.h"
#include "parl/env/wrappers.h"

namespace parl {
namespace {

constexpr size_t kGuard = 64;  // bytes watched on both sides of an observation

struct Frame {  // what one reset or step gave
  std::vector<std::byte> obs;
  float reward = 0;
  bool terminated = false, truncated = false;
  bool operator==(const Frame&) const = default;
};
using Run = std::vector<Frame>;

template <typename F>
bool throws_error(F&& f) {
  try {
    f();
  } catch (const Error&) {
    return true;
  }
  return false;
}

// Drives one environment with actions from a stream of its own.
class Driver {
 public:
  Driver(const EnvFactory& factory, uint64_t action_seed, std::byte fill = std::byte{0x5A})
      : env_(factory()), actions_(action_seed, 0), fill_(fill) {
    PARL_CHECK(env_ != nullptr, "the factory made no environment");
    buffer_.resize(env_->spec().observation.bytes() + 2 * kGuard, fill_);
    if (const auto* box = std::get_if<Box>(&env_->spec().action)) values_.resize(static_cast<size_t>(box->size()));
    choices_ = choices_of(env_->spec().action);
    indices_.resize(choices_.size());
  }

  Env& env() { return *env_; }
  std::span<std::byte> place() { return std::span(buffer_).subspan(kGuard, buffer_.size() - 2 * kGuard); }

  void reset(std::optional<uint64_t> seed) {
    clear();
    env_->reset(seed, place());
    last_ = {};
  }
  StepResult step() {
    draw_action();
    clear();
    return last_ = env_->step(action_, place());
  }
  // A step, or a reset after an end.
  void advance() { last_.done() ? reset({}) : static_cast<void>(step()); }

  const StepResult& last() const { return last_; }
  void forget_end() { last_ = {}; }
  CounterRng& actions() { return actions_; }
  Frame frame() {
    return {std::vector<std::byte>(place().begin(), place().end()), last_.reward, last_.terminated, last_.truncated};
  }
  Run run(int steps) {
    Run out;
    for (int i = 0; i < steps; ++i) {
      advance();
      out.push_back(frame());
    }
    return out;
  }
  bool guard_touched() const {
    const auto untouched = [&](std::byte b) { return b == fill_; };
    return !std::all_of(buffer_.begin(), buffer_.begin() + kGuard, untouched) ||
           !std::all_of(buffer_.end() - kGuard, buffer_.end(), untouched);
  }

 private:
  void clear() { std::fill(buffer_.begin(), buffer_.end(), fill_); }
  void draw_action() {
    if (const auto* discrete = std::get_if<Discrete>(&env_->spec().action)) {
      action_ = Action::discrete(actions_.below(static_cast<uint32_t>(discrete->n)));
      return;
    }
    if (!choices_.empty()) {
      for (size_t i = 0; i < choices_.size(); ++i) indices_[i] = actions_.below(static_cast<uint32_t>(choices_[i]));
      action_ = Action::multi(indices_);
      return;
    }
    const Box& box = std::get<Box>(env_->spec().action);
    for (size_t i = 0; i < values_.size(); ++i) {
      const double low = box.low[box.low.size() == 1 ? 0 : i], high = box.high[box.high.size() == 1 ? 0 : i];
      const double from = std::isfinite(low) ? low : -1, to = std::isfinite(high) ? high : 1;
      values_[i] = static_cast<float>(from + (to - from) * actions_.uniform_double());
    }
    action_ = Action::continuous(values_);
  }

  std::unique_ptr<Env> env_;
  CounterRng actions_;
  std::byte fill_;
  std::vector<std::byte> buffer_;
  std::vector<float> values_;
  std::vector<int64_t> choices_, indices_;
  Action action_;
  StepResult last_;
};

// One check a method; each adds sentences to problems.
class Examiner {
 public:
  Examiner(const EnvFactory& factory, const ConformanceOptions& options) : factory_(factory), options_(options) {}

  std::vector<std::string> examine() {
    attempt("spec", &Examiner::check_spec);
    if (!problems_.empty()) return problems_;  // the rest would stumble over it
    attempt("before the first reset", &Examiner::check_before_reset);
    attempt("seeding", &Examiner::check_seeding);
    attempt("observations", &Examiner::check_observations);
    attempt("ends of episodes", &Examiner::check_ends);
    attempt("bad actions", &Examiner::check_bad_actions);
    attempt("drawing", &Examiner::check_drawing);
    attempt("saving the state", &Examiner::check_saving);
    attempt("recorded episodes", &Examiner::check_episodes);
    if (options_.allocations) attempt("allocations", &Examiner::check_allocations);
    return problems_;
  }

 private:
  void attempt(const char* what, void (Examiner::*check)()) {
    try {
      (this->*check)();
    } catch (const std::exception& e) {
      problem("{}: an unexpected error: {}", what, e.what());
    }
  }
  template <typename... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  Driver driver(std::byte fill = std::byte{0x5A}) { return Driver(factory_, options_.seed, fill); }

  Run seeded_run(Driver& d, uint64_t seed) {
    d.actions().set_position(0);
    d.reset(seed);
    Run out{d.frame()};
    for (Frame& frame : d.run(options_.steps)) out.push_back(std::move(frame));
    return out;
  }
  void compare(const Run& a, const Run& b, const std::string& what) {
    const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    if (at.first != a.end() || at.second != b.end()) problem("{}: they differ at step {}", what, at.first - a.begin());
  }

  void check_bounds(const Box& box, const char* what) {
    const auto size = static_cast<size_t>(std::max<int64_t>(box.size(), 0));
    for (int64_t d : box.shape) {
      if (d <= 0) problem("spec: the {} has the empty dimension {}", what, d);
    }
    for (const auto* bounds : {&box.low, &box.high}) {
      if (bounds->size() != 1 && bounds->size() != size) {
        problem("spec: the {} has {} bounds for {} elements", what, bounds->size(), size);
        return;
      }
    }
    for (size_t i = 0; i < std::max(box.low.size(), box.high.size()); ++i) {
      const double low = box.low[box.low.size() == 1 ? 0 : i], high = box.high[box.high.size() == 1 ? 0 : i];
      if (!(low <= high)) problem("spec: the {} has the bounds {}..{}", what, low, high);
    }
  }

  void check_spec() {
    const auto env = factory_();
    PARL_CHECK(env != nullptr, "the factory made no environment");
    const EnvSpec& spec = env->spec();
    if (spec.id.empty()) problem("spec: id is empty");
    if (spec.contract.empty()) problem("spec: contract is empty; name the settings that change results");
    if (spec.frames_per_step < 1) problem("spec: frames_per_step is {}", spec.frames_per_step);
    if (spec.max_episode_steps < 0) problem("spec: max_episode_steps is {}", spec.max_episode_steps);
    check_bounds(spec.observation, "observation");
    check_parts(spec);
    if (const auto* box = std::get_if<Box>(&spec.action)) {
      check_bounds(*box, "action");
      if (box->dtype != DType::kF32) problem("spec: actions of a Box are f4, not {}", dtype_name(box->dtype));
      return;
    }
    const std::vector<int64_t> choices = choices_of(spec.action);
    if (choices.empty()) problem("spec: an action of {} has no numbers", to_string(spec.action));
    for (int64_t n : choices) {
      if (n < 1) problem("spec: there are {} actions", n);
    }
  }

  void check_parts(const EnvSpec& spec) {
    size_t end = 0;
    for (const SpacePart& part : spec.parts) {
      if (const auto* box = std::get_if<Box>(&part.space)) check_bounds(*box, part.name.c_str());
      if (part.offset < end || part.offset % dtype_size(part.dtype) != 0) {
        problem("spec: the part '{}' lies at byte {}; let set_observation() lay parts out", part.name, part.offset);
      }
      end = part.offset + part.bytes();
    }
    if (!spec.parts.empty() && (spec.observation.bytes() < end || spec.observation.bytes() % 8 != 0)) {
      problem("spec: parts of {} bytes lie in {}; let set_observation() lay them out", end, spec.observation.bytes());
    }
  }

  void check_before_reset() {
    Driver d = driver();
    if (!throws_error([&] { d.step(); })) problem("step() before the first reset() is not an error");
  }

  void check_seeding() {
    for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{0x9000000000000007ull}}) {
      // The second is used before it is seeded, and its places hold other bytes before each observation.
      Driver a = driver(), b = driver(std::byte{0xA5});
      const Run first = seeded_run(a, seed);
      b.reset(seed + 1);
      b.run(37);
      compare(first, seeded_run(b, seed), fmt::format("seed {}: two runs (or bytes left unwritten)", seed));
      compare(first, seeded_run(a, seed), fmt::format("seed {}: a second run of the same environment", seed));
    }
    if (!options_.seeds_differ) return;
    Driver d = driver();
    const Run zero = seeded_run(d, 0);
    for (uint64_t seed : {uint64_t{1}, uint64_t{2}, uint64_t{1} << 40}) {
      bool differ = false;
      for (uint64_t other = seed; other < seed + 4 && !differ; ++other) differ = seeded_run(d, other) != zero;
      if (!differ) problem("seeds {}..{} all give the run of seed 0", seed, seed + 3);
    }
  }

  void check_observations() {
    Driver d = driver();
    d.reset(3);
    for (int i = 0; i <= options_.steps; ++i) {
      std::vector<std::byte> aligned(d.place().begin(), d.place().end());
      if (const std::string what = d.env().spec().outside(aligned.data()); !what.empty()) {
        problem("step {}: {}", i, what);
        return;
      }
      if (d.guard_touched()) {
        problem("step {}: bytes outside the observation's place were written", i);
        return;
      }
      if (!std::isfinite(d.last().reward)) {
        problem("step {}: the reward is {}", i, d.last().reward);
        return;
      }
      d.advance();
    }
  }

  void check_ends() {
    Driver d = driver();
    d.reset(5);
    const int64_t limit = d.env().spec().max_episode_steps;
    int64_t length = 0, ends = 0;
    for (int i = 0; i < options_.steps; ++i) {
      d.step();  // an error here: the episode had ended without terminated or truncated
      ++length;
      if (limit > 0 && length > limit) {
        problem("an episode went on beyond max_episode_steps = {}", limit);
        return;
      }
      if (!d.last().done()) continue;
      const char* kind = d.last().terminated ? "terminated" : "truncated";
      if (!throws_error([&] { d.step(); })) {
        problem("step() after an episode was {} is not an error", kind);
        return;
      }
      ++ends;
      length = 0;
      d.reset({});
    }
    if (options_.ends && ends == 0) problem("no episode ended within {} random steps", options_.steps);
  }

  void check_bad_actions() {
    Driver d = driver();
    d.reset(1);
    const auto refuses = [&](const Action& action) { return throws_error([&] { d.env().step(action, d.place()); }); };
    if (const auto* discrete = std::get_if<Discrete>(&d.env().spec().action)) {
      for (int64_t index : {int64_t{-1}, discrete->n}) {
        if (!refuses(Action::discrete(index))) problem("action {} is not an error", index);
      }
      return;
    }
    if (const std::vector<int64_t> choices = choices_of(d.env().spec().action); !choices.empty()) {
      std::vector<int64_t> indices(choices.size() + 1, 0);
      if (!refuses(Action::multi(indices))) problem("an action of {} numbers is not an error", indices.size());
      if (!refuses(Action::multi({}))) problem("an action without numbers is not an error");
      indices.pop_back();
      for (int64_t wrong : {int64_t{-1}, choices.back()}) {
        indices.back() = wrong;
        if (!refuses(Action::multi(indices))) problem("an action with {} as its last number is not an error", wrong);
      }
      return;
    }
    const auto size = static_cast<size_t>(std::get<Box>(d.env().spec().action).size());
    const std::vector<float> values(size + 1, 0.0f);
    if (!refuses(Action::continuous(values))) problem("an action of {} values is not an error", size + 1);
    if (!refuses(Action::continuous({}))) problem("an action without values is not an error");
    const std::vector<float> nans(size, std::nanf(""));
    if (!refuses(Action::continuous(nans))) problem("an action that is not a number is not an error");
  }

  void check_drawing() {
    Driver plain = driver(), drawn = driver();
    Image image;
    drawn.reset(2);
    if (throws_error([&] { drawn.env().render(image); })) return;  // not offered
    const Run expected = seeded_run(plain, 2);
    drawn.actions().set_position(0);
    drawn.reset(2);
    Run with{drawn.frame()};
    for (int i = 0; i < options_.steps; ++i) {
      if (i % 97 == 0) {
        drawn.env().render(image);
        const auto pixels = static_cast<int64_t>(image.width) * image.height;
        if (pixels <= 0 || static_cast<int64_t>(image.rgb.size()) != pixels * 3) {
          problem("render() gave {} bytes for {} x {} pixels", image.rgb.size(), image.width, image.height);
          return;
        }
      }
      drawn.advance();
      with.push_back(drawn.frame());
    }
    compare(expected, with, "a run with and one without render()");
  }

  void check_saving() {
    Driver d = driver();
    d.reset(4);
    if (!d.env().can_save_state()) {
      if (!throws_error([&] { d.env().save_state(); })) problem("can_save_state() is false but save_state() works");
      return;
    }
    for (int i = 0; i < options_.steps / 3 || d.last().done(); ++i) d.advance();  // in the middle of an episode
    const auto state = d.env().save_state();
    const uint64_t position = d.actions().position();
    const Run future = d.run(options_.steps);
    Driver fresh = driver();
    for (Driver* other : {&d, &fresh}) {
      other->env().load_state(state);
      other->actions().set_position(position);
      other->forget_end();
      compare(future, other->run(options_.steps),
              other == &d ? "a state loaded into its own environment: two futures"
                          : "a state loaded into a fresh environment: two futures");
    }
    if (!throws_error([&] { fresh.env().load_state(std::span(state).first(state.size() / 2)); })) {
      problem("half a state is loaded without an error");
    }
    check_saving_an_end();
  }

  void check_saving_an_end() {
    Driver d = driver(), other = driver();
    d.reset(6);
    for (int i = 0; i < options_.steps && !d.last().done(); ++i) d.advance();
    if (!d.last().done()) return;
    other.env().load_state(d.env().save_state());
    if (!throws_error([&] { other.step(); }))
      problem("the saved end of an episode is forgotten: step() works after load");
  }

  void check_episodes() {
    EnvFactory recording = [this]() -> std::unique_ptr<Env> {
      auto env = factory_();
      if (env->records_episodes()) return env;
      return std::make_unique<EpisodeStatistics>(std::move(env));
    };
    Driver d(recording, options_.seed);
    std::vector<Episode> expected, recorded;
    d.reset(8);
    Episode now;
    for (int i = 0; i < options_.steps; ++i) {
      d.step();
      now.raw_return += d.last().reward;
      ++now.length;
      if (!d.last().done()) continue;
      now.truncated = !d.last().terminated;
      expected.push_back(now);
      now = {};
      d.env().take_episodes(recorded);
      d.reset({});
    }
    d.env().take_episodes(recorded);
    if (options_.episode_per_end) {
      compare_episodes(expected, recorded);
    } else if (recorded.size() > expected.size()) {
      problem("{} episodes were recorded, but only {} ended", recorded.size(), expected.size());
    }
  }

  void compare_episodes(const std::vector<Episode>& expected, const std::vector<Episode>& recorded) {
    if (recorded.size() != expected.size()) {
      problem("{} episodes were recorded, but {} ended", recorded.size(), expected.size());
      return;
    }
    for (size_t i = 0; i < recorded.size(); ++i) {
      const Episode &e = expected[i], &r = recorded[i];
      if (r.length != e.length) problem("episode {} is recorded with length {}, it had {}", i, r.length, e.length);
      if (r.truncated != e.truncated) problem("episode {} is recorded with truncated = {}", i, r.truncated);
      if (options_.raw_rewards &&
          std::abs(r.raw_return - e.raw_return) > 1e-6 * std::max(1.0, std::abs(e.raw_return))) {
        problem("episode {} is recorded with return {}, its rewards add up to {}", i, r.raw_return, e.raw_return);
      }
    }
  }

  // The step that ends an episode may allocate: it writes the record.
  void check_allocations() {
    Driver d = driver();
    std::vector<Episode> episodes;
    episodes.reserve(static_cast<size_t>(options_.steps) + 1);
    d.reset(9);
    for (int i = 0; i < options_.steps; ++i) d.advance();  // warm
    d.reset(9);
    uint64_t in_steps = 0, in_resets = 0;
    for (int i = 0; i < options_.steps; ++i) {
      d.env().take_episodes(episodes);
      const uint64_t before = options_.allocations();
      const bool is_reset = d.last().done();
      d.advance();
      const uint64_t count = options_.allocations() - before;
      if (is_reset) {
        in_resets += count;
      } else if (!d.last().done()) {
        in_steps += count;
      }
    }
    if (in_steps > 0) problem("step() allocated {} times in {} steps", in_steps, options_.steps);
    if (in_resets > 0) problem("reset() allocated {} times", in_resets);
  }

  const EnvFactory& factory_;
  const ConformanceOptions& options_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> conformance_problems(const EnvFactory& factory, const ConformanceOptions& options) {
  return Examiner(factory, options).examine();
}

void check_env(const EnvFactory& factory, const ConformanceOptions& options) {
  const auto problems = conformance_problems(factory, options);
  if (!problems.empty()) raise("the environment does not keep its contract:\n  {}", fmt::join(problems, "\n  "));
}

}  // namespace parl
