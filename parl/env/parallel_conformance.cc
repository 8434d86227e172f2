#include "parl/env/parallel_conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "parl/core/rng.h"

namespace parl {
namespace {

constexpr std::byte kPaint{0xA5};
constexpr size_t kMargin = 16;  // painted bytes around every place

// What happened: everything that a later run must repeat.
struct Trace {
  std::vector<std::byte> bytes;
  template <typename T>
  void add(const T& value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof(T));
  }
  bool operator==(const Trace&) const = default;
};

class Player {
 public:
  Player(ParallelEnv& game, uint64_t seed, std::vector<std::string>& problems)
      : game_(game), random_(seed, 0), problems_(problems) {
    for (const AgentSpec& agent : game.spec().agents) {
      buffers_.emplace_back(agent.observation.bytes() + 2 * kMargin);
      const auto* box = std::get_if<Box>(&agent.action);
      values_.emplace_back(box ? static_cast<size_t>(box->size()) : 0);
    }
    for (auto& buffer : buffers_) places_.push_back(std::span(buffer).subspan(kMargin, buffer.size() - 2 * kMargin));
    actions_.resize(agents());
    results_.resize(agents());
  }

  size_t agents() const { return buffers_.size(); }
  ParallelEnv::Places places() const { return places_; }
  void problem(const std::string& text) {
    if (std::find(problems_.begin(), problems_.end(), text) == problems_.end()) problems_.push_back(text);
  }

  void reset(std::optional<uint64_t> seed, Trace& trace) {
    paint();
    game_.reset(seed, places_);
    for (size_t i = 0; i < agents(); ++i) {
      if (!game_.alive(i)) problem(fmt::format("'{}' is not alive after reset()", name(i)));
      look_at(i, trace);
    }
  }

  void step(Trace& trace) {
    draw();
    paint();
    std::vector<bool> lived(agents());
    for (size_t i = 0; i < agents(); ++i) {
      lived[i] = game_.alive(i);
      results_[i] = StepResult{-77, false, false};
    }
    game_.step(actions_, places_, results_);
    for (size_t i = 0; i < agents(); ++i) {
      if (!lived[i]) {
        const bool untouched =
            std::all_of(places_[i].begin(), places_[i].end(), [](std::byte b) { return b == kPaint; });
        if (!untouched || results_[i].reward != -77)
          problem(fmt::format("'{}' has left and is still written to", name(i)));
        if (game_.alive(i)) problem(fmt::format("'{}' had left and is alive again without reset()", name(i)));
        continue;
      }
      look_at(i, trace);
      trace.add(results_[i].reward);
      trace.add(results_[i].terminated);
      trace.add(results_[i].truncated);
      if (game_.alive(i) == results_[i].done())
        problem(fmt::format("'{}': alive() and its flags disagree after a step", name(i)));
    }
  }

  void draw() {
    for (size_t i = 0; i < agents(); ++i) {
      const Space& space = game_.spec().agents[i].action;
      if (const auto* discrete = std::get_if<Discrete>(&space)) {
        actions_[i] = Action::discrete(random_.below(static_cast<uint32_t>(discrete->n)));
        continue;
      }
      for (float& value : values_[i]) value = 2 * random_.uniform() - 1;
      actions_[i] = Action::continuous(values_[i]);
    }
  }
  std::vector<Action>& actions() { return actions_; }
  std::span<StepResult> results() { return results_; }

 private:
  const std::string& name(size_t i) const { return game_.spec().agents[i].name; }
  void paint() {
    for (auto& buffer : buffers_) std::fill(buffer.begin(), buffer.end(), kPaint);
  }
  void look_at(size_t i, Trace& trace) {
    const auto& buffer = buffers_[i];
    trace.bytes.insert(trace.bytes.end(), places_[i].begin(), places_[i].end());
    if (!game_.spec().agents[i].observation.contains(places_[i].data()))
      problem(fmt::format("an observation of '{}' lies outside its space", name(i)));
    for (size_t k = 0; k < kMargin; ++k) {
      if (buffer[k] != kPaint || buffer[buffer.size() - 1 - k] != kPaint)
        problem(fmt::format("bytes outside the place of '{}' were written", name(i)));
    }
  }

  ParallelEnv& game_;
  CounterRng random_;
  std::vector<std::string>& problems_;
  std::vector<std::vector<std::byte>> buffers_;
  std::vector<std::span<std::byte>> places_;
  std::vector<std::vector<float>> values_;
  std::vector<Action> actions_;
  std::vector<StepResult> results_;
};

class Check {
 public:
  Check(const ParallelEnvFactory& factory, const ParallelConformanceOptions& options)
      : factory_(factory), options_(options) {}

  std::vector<std::string> run() {
    look_at_spec();
    if (!problems.empty()) return problems;
    repeatability();
    errors();
    state();
    drawing();
    allocation();
    return problems;
  }

 private:
  Trace play(ParallelEnv& game, Player& player, std::optional<uint64_t> seed, int steps) {
    Trace trace;
    player.reset(seed, trace);
    for (int k = 0; k < steps; ++k) {
      if (!game.anyone_alive()) {
        ++ended_;
        player.reset({}, trace);
      } else {
        player.step(trace);
      }
    }
    return trace;
  }
  Trace play(uint64_t seed, int steps) {
    const auto game = factory_();
    Player player(*game, options_.seed, problems);
    return play(*game, player, seed, steps);
  }

  void look_at_spec() {
    const auto game = factory_();
    std::set<std::string> names;
    if (game->spec().id.empty()) problems.push_back("the spec has no id");
    if (game->spec().agents.empty()) problems.push_back("the spec has no agents");
    for (const AgentSpec& agent : game->spec().agents) {
      if (agent.name.empty() || !names.insert(agent.name).second)
        problems.push_back(fmt::format("agent '{}' has no name of its own", agent.name));
      if (agent.observation.bytes() == 0) problems.push_back(fmt::format("'{}' observes nothing", agent.name));
    }
  }

  void repeatability() {
    const Trace first = play(0, options_.steps);
    if (options_.ends && ended_ == 0) problems.push_back("no game ended by random play");
    if (!(first == play(0, options_.steps))) problems.push_back("the same seed and actions gave another game");
    const auto game = factory_();
    Player before(*game, options_.seed + 1, problems), player(*game, options_.seed, problems);
    play(*game, before, 5, 37);
    if (!(first == play(*game, player, 0, options_.steps))) problems.push_back("a seed does not undo what went before");
    if (options_.seeds_differ && first == play(1, options_.steps))
      problems.push_back("seeds 0 and 1 give the same game");
  }

  template <typename F>
  void must_throw(const std::string& what, F&& call) {
    try {
      call();
    } catch (const Error&) {
      return;
    }
    problems.push_back(what + " is no error");
  }

  void errors() {
    const auto game = factory_();
    Player player(*game, options_.seed, problems);
    player.draw();
    must_throw("step() before reset()", [&] { game->step(player.actions(), player.places(), player.results()); });
    Trace trace;
    player.reset(3, trace);
    if (const auto* discrete = std::get_if<Discrete>(&game->spec().agents[0].action)) {
      player.draw();
      player.actions()[0] = Action::discrete(discrete->n);
      must_throw("an action that does not exist",
                 [&] { game->step(player.actions(), player.places(), player.results()); });
    }
    for (int k = 0; k < options_.steps && game->anyone_alive(); ++k) player.step(trace);
    if (game->anyone_alive()) return;
    player.draw();
    must_throw("step() after the end", [&] { game->step(player.actions(), player.places(), player.results()); });
  }

  void state() {
    const auto game = factory_();
    if (!game->can_save_state()) return;
    Player player(*game, options_.seed, problems), again(*game, options_.seed + 2, problems);
    play(*game, player, 11, 23);
    if (!game->anyone_alive()) play(*game, player, {}, 1);
    const auto saved = game->save_state();
    Player one(*game, options_.seed + 3, problems), two(*game, options_.seed + 3, problems);
    Trace first, second;
    for (int k = 0; k < 200 && game->anyone_alive(); ++k) one.step(first);
    one.reset({}, first);
    game->load_state(saved);
    for (int k = 0; k < 200 && game->anyone_alive(); ++k) two.step(second);
    two.reset({}, second);
    if (!(first == second)) problems.push_back("load_state(save_state()) and the same actions give another game");
    must_throw("a state that is cut off", [&] { game->load_state(std::span(saved).first(saved.size() - 1)); });
  }

  void drawing() {
    const auto game = factory_();
    Player player(*game, options_.seed, problems);
    Trace trace;
    player.reset(0, trace);
    Image image;
    for (int k = 0; k < 50 && game->anyone_alive(); ++k) {
      try {
        game->render(image);
      } catch (const Error&) {
        return;  // cannot draw itself
      }
      if (image.rgb.size() != static_cast<size_t>(image.width) * static_cast<size_t>(image.height) * 3)
        player.problem("a picture has another size than it says");
      player.step(trace);
    }
    Trace plain;
    const auto other = factory_();
    Player same(*other, options_.seed, problems);
    same.reset(0, plain);
    for (int k = 0; k < 50 && other->anyone_alive(); ++k) same.step(plain);
    if (!(trace == plain)) problems.push_back("drawing changes the game");
  }

  void allocation() {
    if (!options_.allocations) return;
    const auto game = factory_();
    Player player(*game, options_.seed, problems);
    play(*game, player, 0, 200);  // warm
    uint64_t in_game = 0;
    for (int k = 0; k < 200; ++k) {
      player.draw();
      const uint64_t before = options_.allocations();
      if (game->anyone_alive()) {
        game->step(player.actions(), player.places(), player.results());
      } else {
        game->reset({}, player.places());
      }
      in_game += options_.allocations() - before;
    }
    if (in_game > 0) problems.push_back(fmt::format("{} allocations in 200 warm steps", in_game));
  }

  const ParallelEnvFactory& factory_;
  const ParallelConformanceOptions& options_;
  int ended_ = 0;

 public:
  std::vector<std::string> problems;
};

}  // namespace

void check_parallel_env(const ParallelEnvFactory& factory, const ParallelConformanceOptions& options) {
  const auto problems = Check(factory, options).run();
  if (problems.empty()) return;
  std::string text = fmt::format("'{}' does not keep the contract of parallel_env.h:", factory()->spec().id);
  for (const std::string& problem : problems) text += "\n  - " + problem;
  throw Error(text);
}

}  // namespace parl
