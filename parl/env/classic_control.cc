// Built with -ffp-contract=off like every task: fused multiply-adds would leave Gymnasium's numbers.
#include "parl/env/classic_control.h"

#include "parl/env/internal/canvas.h"
#include "parl/env/state_io.h"

namespace parl {

ClassicControl::ClassicControl(EnvSpec spec, size_t state_size)
    : state_(state_size), spec_(std::move(spec)), obs_bytes_(spec_.observation.bytes()) {}

void ClassicControl::reset(std::optional<uint64_t> seed, std::span<std::byte> obs) {
  PARL_CHECK_EQ(obs.size(), obs_bytes_, "'{}' writes observations of this size", spec_.id);
  if (seed) rng_ = NumpyRng(*seed);
  start(rng_);
  running_ = true;
  observe(reinterpret_cast<float*>(obs.data()));
}

StepResult ClassicControl::step(const Action& action, std::span<std::byte> obs) {
  PARL_CHECK(running_, "'{}': step() after the end of an episode or before the first reset(); call reset()", spec_.id);
  PARL_CHECK_EQ(obs.size(), obs_bytes_, "'{}' writes observations of this size", spec_.id);
  check_action(spec_, action);
  const StepResult result = advance(action);
  running_ = !result.done();
  observe(reinterpret_cast<float*>(obs.data()));
  return result;
}

void ClassicControl::render(Image& out) {
  Canvas canvas(canvas_width(), canvas_height(), out);
  draw(canvas);
}

void ClassicControl::set_state(std::span<const double> state) {
  PARL_CHECK_EQ(state.size(), state_.size(), "the state of '{}' has this many numbers", spec_.id);
  state_.assign(state.begin(), state.end());
  running_ = true;
}

std::vector<std::byte> ClassicControl::save_state() const {
  StateWriter out;
  out.put_bytes(std::as_bytes(std::span(state_)));
  out.put(rng_.state());
  out.put(running_);
  return out.take();
}

void ClassicControl::load_state(std::span<const std::byte> state) {
  StateReader in(state);
  NumpyRng::State rng{};
  in.get_bytes(std::as_writable_bytes(std::span(state_)));
  in.get(rng);
  in.get(running_);
  in.finish();
  rng_.set_state(rng);
}

}  // namespace parl
