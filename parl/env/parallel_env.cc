#include "parl/env/parallel_env.h"

#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <set>

#include "parl/env/state_io.h"

namespace parl {
namespace {

// What the seats of one game share. Its functions are called with the mutex held by whichever seat comes first.
class Table {
 public:
  explicit Table(std::unique_ptr<ParallelEnv> game) : game_(std::move(game)), seats_(agents().size()) {
    for (size_t i = 0; i < seats_.size(); ++i) {
      seats_[i].obs.resize(agents()[i].observation.bytes());
      seats_[i].first.resize(seats_[i].obs.size());
      if (const auto* box = std::get_if<Box>(&agents()[i].action))
        seats_[i].values.resize(static_cast<size_t>(box->size()));
      places_.emplace_back(seats_[i].obs);
      firsts_.emplace_back(seats_[i].first);
    }
    actions_.resize(seats_.size());
    results_.resize(seats_.size());
  }

  const ParallelSpec& spec() const { return game_->spec(); }
  const std::vector<AgentSpec>& agents() const { return game_->spec().agents; }

  void prepare(size_t i, const Action& action) {
    const std::lock_guard lock(mutex_);
    Seat& seat = seats_[i];
    PARL_CHECK_EQ(action.values.size(), seat.values.size(), "'{}' of '{}' takes another number of action values",
                  agents()[i].name, spec().id);
    if (!seat.values.empty()) std::memcpy(seat.values.data(), action.values.data(), action.values.size_bytes());
    seat.index = action.index;
    seat.indices.assign(action.indices.begin(), action.indices.end());
    seat.prepared = true;
  }

  void prepare_reset(size_t i, std::optional<uint64_t> seed) {
    const std::lock_guard lock(mutex_);
    begin_anew_ = true;
    seats_[i].step_due = seats_[i].first_due = seats_[i].prepared = false;
    if (i == 0) seed_ = seed;
  }

  void reset(size_t i, std::optional<uint64_t> seed, std::span<std::byte> obs) {
    const std::lock_guard lock(mutex_);
    Seat& seat = seats_[i];
    if (!seat.first_due) {
      if (!begin_anew_ && started_ && game_->anyone_alive()) {
        PARL_CHECK(seat.waits, "'{}' has {} agents that start together: reset all of them in one VectorEnv", spec().id,
                   seats_.size());
        std::memset(obs.data(), 0, obs.size());
        return;
      }
      start(i == 0 && seed ? seed : seed_);
    }
    seat.first_due = seat.waits = false;
    std::memcpy(obs.data(), seat.first.data(), obs.size());
  }

  StepResult step(size_t i, std::span<std::byte> obs) {
    const std::lock_guard lock(mutex_);
    PARL_CHECK(started_, "'{}': step() before the first reset(); call reset()", spec().id);
    Seat& seat = seats_[i];
    if (!seat.step_due) advance();
    seat.step_due = false;
    if (seat.waits) {
      std::memset(obs.data(), 0, obs.size());
      return {.terminated = true};
    }
    std::memcpy(obs.data(), seat.obs.data(), obs.size());
    seat.waits = results_[i].done();
    return results_[i];
  }

  void take_episodes(size_t i, std::vector<Episode>& out) {
    const std::lock_guard lock(mutex_);
    auto& done = seats_[i].done;
    out.insert(out.end(), std::make_move_iterator(done.begin()), std::make_move_iterator(done.end()));
    done.clear();
  }

  void scalars(size_t i, std::vector<std::pair<std::string, double>>& out) const {
    const std::lock_guard lock(mutex_);
    game_->scalars(i, out);
  }

  void render(Image& out) {
    const std::lock_guard lock(mutex_);
    game_->render(out);
  }

  bool can_save_state() const { return game_->can_save_state(); }

  // Between the steps of a VectorEnv: every seat has had its result.
  std::vector<std::byte> save_state() const {
    const std::lock_guard lock(mutex_);
    StateWriter out;
    out.put_bytes(game_->save_state());
    out.put(started_);
    for (const Seat& seat : seats_) {
      out.put(seat.waits);
      out.put(seat.raw_return);
      out.put(seat.length);
    }
    return out.take();
  }

  void load_state(std::span<const std::byte> state) {
    const std::lock_guard lock(mutex_);
    StateReader in(state);
    game_->load_state(in.block());
    in.get(started_);
    for (Seat& seat : seats_) {
      in.get(seat.waits);
      in.get(seat.raw_return);
      in.get(seat.length);
      seat.prepared = seat.step_due = seat.first_due = false;
      seat.done.clear();
    }
    begin_anew_ = false;
    in.finish();
  }

 private:
  struct Seat {
    std::vector<std::byte> obs, first;  // after the latest step of the game, and after its latest reset
    int64_t index = 0;
    std::vector<float> values;
    std::vector<int64_t> indices;
    bool prepared = false;   // the next action is there
    bool step_due = false;   // the latest step's result was not fetched yet
    bool first_due = false;  // nor the new game's first observation
    bool waits = false;      // the agent has left; the game goes on
    double raw_return = 0;
    int64_t length = 0;
    std::vector<Episode> done;
  };

  void start(std::optional<uint64_t> seed) {
    game_->reset(seed, firsts_);
    seed_.reset();
    for (Seat& seat : seats_) {
      seat.first_due = true;
      seat.raw_return = 0;
      seat.length = 0;
    }
    begin_anew_ = false;
    started_ = true;
  }

  void advance() {
    PARL_CHECK(game_->anyone_alive(), "'{}': step() after the end of an episode; call reset()", spec().id);
    for (size_t i = 0; i < seats_.size(); ++i) {
      PARL_CHECK(seats_[i].prepared && !seats_[i].step_due,
                 "'{}' has {} agents that act together, and '{}' has no action: step all of them in one VectorEnv",
                 spec().id, seats_.size(), agents()[i].name);
      actions_[i] = Action{seats_[i].index, seats_[i].values, seats_[i].indices};
    }
    game_->step(actions_, places_, results_);
    for (size_t i = 0; i < seats_.size(); ++i) {
      seats_[i].prepared = false;
      seats_[i].step_due = true;
      if (!seats_[i].waits) account(i);
    }
  }

  void account(size_t i) {
    Seat& seat = seats_[i];
    seat.raw_return += results_[i].reward;
    ++seat.length;
    if (!results_[i].done()) return;
    Episode episode{seat.raw_return, seat.length, results_[i].truncated && !results_[i].terminated, {}};
    game_->scalars(i, episode.scalars);
    episode.scalars.emplace_back("return/" + agents()[i].name, seat.raw_return);
    seat.done.push_back(std::move(episode));
  }

  mutable std::mutex mutex_;
  std::unique_ptr<ParallelEnv> game_;
  std::vector<Seat> seats_;
  std::vector<std::span<std::byte>> places_, firsts_;
  std::vector<Action> actions_;
  std::vector<StepResult> results_;
  std::optional<uint64_t> seed_;
  bool started_ = false;
  bool begin_anew_ = false;  // a reset of all seats was announced
};

class SeatEnv final : public Env {
 public:
  SeatEnv(std::shared_ptr<Table> table, size_t agent) : table_(std::move(table)), agent_(agent) {
    const ParallelSpec& game = table_->spec();
    spec_.id = game.id;
    spec_.observation = game.agents[agent].observation;
    spec_.action = game.agents[agent].action;
    spec_.contract = game.contract;
    for (const AgentSpec& a : game.agents) spec_.agents.push_back(a.name);
  }

  const EnvSpec& spec() const override { return spec_; }
  void prepare(const Action& action) override { table_->prepare(agent_, action); }
  void prepare_reset(std::optional<uint64_t> seed) override { table_->prepare_reset(agent_, seed); }
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override {
    check_place(obs);
    table_->reset(agent_, seed, obs);
  }
  StepResult step(const Action& /*prepared*/, std::span<std::byte> obs) override {
    check_place(obs);
    return table_->step(agent_, obs);
  }
  bool records_episodes() const override { return true; }
  void take_episodes(std::vector<Episode>& out) override { table_->take_episodes(agent_, out); }
  void scalars(std::vector<std::pair<std::string, double>>& out) const override { table_->scalars(agent_, out); }
  void render(Image& out) override { table_->render(out); }
  bool can_save_state() const override { return table_->can_save_state(); }
  // The first seat's is the whole table's.
  std::vector<std::byte> save_state() const override {
    return agent_ == 0 ? table_->save_state() : std::vector<std::byte>();
  }
  void load_state(std::span<const std::byte> state) override {
    if (agent_ == 0) table_->load_state(state);
  }

 private:
  void check_place(std::span<std::byte> obs) const {
    PARL_CHECK_EQ(obs.size(), spec_.observation.bytes(), "the place for an observation of '{}'", spec_.id);
  }
  std::shared_ptr<Table> table_;
  size_t agent_;
  EnvSpec spec_;
};

}  // namespace

bool ParallelEnv::anyone_alive() const {
  for (size_t i = 0; i < spec().agents.size(); ++i) {
    if (alive(i)) return true;
  }
  return false;
}

void ParallelEnv::render(Image& /*out*/) {
  raise("'{}' cannot draw itself: override render() to make videos", spec().id);
}

std::vector<std::byte> ParallelEnv::save_state() const { raise("'{}' cannot save its state", spec().id); }

void ParallelEnv::load_state(std::span<const std::byte> /*state*/) { raise("'{}' cannot load a state", spec().id); }

std::vector<std::unique_ptr<Env>> make_seats(std::unique_ptr<ParallelEnv> game) {
  PARL_CHECK(game != nullptr, "make_seats needs a game");
  const ParallelSpec& spec = game->spec();
  PARL_CHECK(!spec.agents.empty(), "'{}' has no agents", spec.id);
  std::set<std::string> names;
  for (const AgentSpec& agent : spec.agents) {
    PARL_CHECK(!agent.name.empty() && names.insert(agent.name).second,
               "the agents of '{}' need names of their own; '{}' is empty or stands twice", spec.id, agent.name);
  }
  auto table = std::make_shared<Table>(std::move(game));
  std::vector<std::unique_ptr<Env>> seats;
  for (size_t i = 0; i < table->agents().size(); ++i) seats.push_back(std::make_unique<SeatEnv>(table, i));
  return seats;
}

}  // namespace parl
