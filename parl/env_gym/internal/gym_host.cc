#include "parl/env_gym/internal/gym_host.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "parl/core/rng.h"

namespace parl::internal {

extern const char* const kGymScript;

namespace {

constexpr char kWell = 1;  // status of a step

class Starting {
 public:
  Starting(PythonProcess& process, bool is_starting) : process_(process) { process_.set_starting(is_starting); }
  ~Starting() { process_.set_starting(false); }
  Starting(const Starting&) = delete;
  Starting& operator=(const Starting&) = delete;

 private:
  PythonProcess& process_;
};

std::string interpreter(const std::string& asked) {
  if (!asked.empty()) return asked;
  const char* named = std::getenv("PARL_PYTHON");
  if (named && *named) return named;
  static constexpr const char* kOfSetup = PARL_SETUP_PYTHON;
  return *kOfSetup && ::access(kOfSetup, X_OK) == 0 ? kOfSetup : "python3";
}

}  // namespace

GymHost::GymHost(GymOptions options, int slots) : options_(std::move(options)), slots_(static_cast<size_t>(slots)) {
  PARL_CHECK(options_.timeout > 0, "environment option 'timeout' is {}; it must be a positive number of seconds",
             options_.timeout);
  PARL_CHECK(options_.start_timeout > 0,
             "environment option 'start_timeout' is {}; it must be a positive number of seconds",
             options_.start_timeout);
  PARL_CHECK(options_.seed_bits >= 1 && options_.seed_bits <= 64, "environment option 'seed_bits' is {}; it is 1..64",
             options_.seed_bits);
  PARL_CHECK(slots >= 1 && slots <= 64, "environment option 'per_process' is {}; it is 1..64", slots);
  start();
}

void GymHost::start() {
  const std::string who = "gym:" + options_.id;
  const double patience = options_.start_timeout;
  auto fresh = std::make_unique<PythonProcess>(interpreter(options_.python), kGymScript, who);
  std::optional<Starting> guard(std::in_place, *fresh, true);
  fresh->send_text(gym_request(options_.id, options_.kwargs, options_.imports, options_.mask_from_info), "the start");
  wait(*fresh, "the start", patience);
  const GymDescription found = parse_gym_description(fresh->receive_text(patience, "the start"));
  EnvSpec made;
  made.id = who;
  made.set_observation(found.observation);
  made.action = found.action;
  made.max_episode_steps = found.max_episode_steps;
  made.contract = fmt::format("{}, gymnasium {}{}", who, found.version,
                              options_.kwargs == "{}" ? "" : ", arguments " + options_.kwargs);
  const bool is_same =
      made.parts == spec_.parts && made.observation == spec_.observation && made.action == spec_.action;
  PARL_CHECK(spec_.id.empty() || is_same, "{}: started again, the environment has other spaces", who);
  std::string text;
  plan_ = plan_gym_memory(made, static_cast<int>(slots_.size()), text);
  std::byte* memory = fresh->map(plan_.stride * slots_.size());
  fresh->send_text(text, "the start");
  guard.reset();
  if (spec_.id.empty()) spec_ = std::move(made);
  memory_ = memory;
  process_ = std::move(fresh);
}

void GymHost::start_again_if_gone() {
  if (process_->is_alive()) return;
  start();
  ++restarts_;
  flying_ = 0;
  for (Slot& slot : slots_) {
    slot.is_made = false;
    if (slot.state != State::kFree) slot.state = State::kIdle;
  }
}

// The answer's first byte.
void GymHost::wait(PythonProcess& from, const char* what, double timeout) const {
  char status = 0;
  from.receive(&status, 1, timeout, what);
  if (status == 'k') return;
  PARL_CHECK(status == 'e', "gym:{}: the Python process sent what is no answer to {}", options_.id, what);
  const std::string text = from.receive_text(timeout, what);
  raise("gym:{}: {} failed in Python:\n{}", options_.id, what, text);
}

void GymHost::ask(char command, int slot, const char* what) {
  const char message[] = {command, 1, static_cast<char>(slot)};
  process_->send({message, sizeof(message)}, what);
  const bool is_start = command == 'N';
  const Starting guard(*process_, is_start);
  wait(*process_, what, is_start ? options_.start_timeout : options_.timeout);
}

int GymHost::pid() {
  const std::lock_guard lock(mutex_);
  return process_->pid();
}

bool GymHost::has_room() {
  const std::lock_guard lock(mutex_);
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.state == State::kFree; });
}

int GymHost::enter() {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state != State::kFree) continue;
    slots_[i] = {State::kIdle, slots_[i].is_made, {}};
    return static_cast<int>(i);
  }
  return -1;
}

void GymHost::leave(int slot) {
  const std::lock_guard lock(mutex_);
  Slot& mine = slots_[static_cast<size_t>(slot)];
  try {
    const bool others =
        std::count_if(slots_.begin(), slots_.end(), [](const Slot& s) { return s.state != State::kFree; }) > 1;
    if (others && process_->is_alive() && mine.is_made) {  // the last one's environment goes with the process
      land();
      ask('C', slot, "close()");
    }
  } catch (const Error&) {  // the others will hear of it
  }
  mine = {};
}

void GymHost::reset(int slot, std::optional<uint64_t> seed, std::span<std::byte> obs) {
  const std::lock_guard lock(mutex_);
  Slot& mine = slots_[static_cast<size_t>(slot)];
  try {
    if (process_->is_alive()) land();
  } catch (const Error&) {  // the process is gone; those who wait for its steps will hear of it
  }
  mine.state = State::kIdle;  // a step that nobody waited for is forgotten
  if (seed) mine.last_seed = seed;
  start_again_if_gone();
  if (!mine.is_made) {
    if (!seed && mine.last_seed) seed = derive_seed(*mine.last_seed, restarts_);
    ask('N', slot, "gymnasium.make()");
    mine.is_made = true;
  }
  uint64_t number = seed.value_or(0);
  if (options_.seed_bits < 64) number &= (uint64_t{1} << options_.seed_bits) - 1;
  std::byte* at = place(slot);
  std::memcpy(at + GymMemory::kSeed, &number, sizeof(number));
  at[GymMemory::kHasSeed] = static_cast<std::byte>(seed.has_value());
  ask('R', slot, "reset()");
  std::memcpy(obs.data(), at + plan_.observation, obs.size());
}

void GymHost::begin_step(int slot, const Action& action) {
  const std::lock_guard lock(mutex_);
  Slot& mine = slots_[static_cast<size_t>(slot)];
  PARL_CHECK(mine.state == State::kIdle && mine.is_made,
             "'{}': its Python process is gone, or a step is being made; "
             "call reset()",
             spec_.id);
  std::byte* to = place(slot) + GymMemory::kAction;
  if (!action.values.empty()) {
    std::memcpy(to, action.values.data(), action.values.size_bytes());
  } else if (!action.indices.empty()) {
    std::memcpy(to, action.indices.data(), action.indices.size_bytes());
  } else {
    std::memcpy(to, &action.index, sizeof(action.index));
  }
  mine.state = State::kBegun;
  const bool all = std::none_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.state == State::kIdle; });
  if (all && flying_ == 0) fly();
}

void GymHost::fly() {
  char message[2 + 64] = {'S', 0};
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state != State::kBegun) continue;
    slots_[i].state = State::kFlying;
    message[2 + message[1]++] = static_cast<char>(i);
  }
  flying_ = message[1];
  process_->send({message, size_t{2} + static_cast<size_t>(flying_)}, "step()");
}

void GymHost::land() {
  if (flying_ == 0) return;
  const double timeout = options_.timeout * flying_;
  flying_ = 0;
  const auto change = [this](State to) {
    for (Slot& slot : slots_) {
      if (slot.state == State::kFlying) slot.state = to;
    }
  };
  try {
    wait(*process_, "step()", timeout);
  } catch (...) {
    change(State::kIdle);
    throw;
  }
  change(State::kArrived);
}

StepResult GymHost::end_step(int slot, std::span<std::byte> obs) {
  const std::lock_guard lock(mutex_);
  Slot& mine = slots_[static_cast<size_t>(slot)];
  if (mine.state == State::kBegun) {
    land();  // of others, which were begun before
    fly();
  }
  if (mine.state == State::kFlying) land();
  PARL_CHECK(mine.state == State::kArrived, "'{}': its Python process failed in a step; call reset()", spec_.id);
  mine.state = State::kIdle;
  const std::byte* at = place(slot);
  if (at[GymMemory::kStatus] != std::byte{kWell}) {
    ask('E', slot, "step()");
    raise("gym:{}: step() failed in Python:\n{}", options_.id, process_->receive_text(options_.timeout, "step()"));
  }
  double reward = 0;
  std::memcpy(&reward, at + GymMemory::kReward, sizeof(reward));
  StepResult result;
  result.reward = static_cast<float>(reward);
  result.terminated = at[GymMemory::kTerminated] != std::byte{0};
  result.truncated = at[GymMemory::kTruncated] != std::byte{0};
  std::memcpy(obs.data(), at + plan_.observation, obs.size());
  return result;
}

void GymHost::render(int slot, Image& out) {
  const std::lock_guard lock(mutex_);
  Slot& mine = slots_[static_cast<size_t>(slot)];
  PARL_CHECK(mine.state == State::kIdle && mine.is_made, "'{}': render() before the first reset(), or during a step",
             spec_.id);
  land();
  ask('D', slot, "render()");
  uint32_t size[2] = {0, 0};
  process_->receive(size, sizeof(size), options_.timeout, "render()");
  out.width = static_cast<int>(size[0]);
  out.height = static_cast<int>(size[1]);
  out.rgb.resize(size_t{3} * size[0] * size[1]);
  process_->receive(out.rgb.data(), out.rgb.size(), options_.timeout, "render()");
}

}  // namespace parl::internal
