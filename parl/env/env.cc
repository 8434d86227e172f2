#include "parl/env/env.h"

namespace parl {

void Env::render(Image& /*out*/) { raise("'{}' cannot draw itself: it does not override Env::render()", spec().id); }

std::vector<std::byte> Env::save_state() const {
  raise("'{}' cannot save its state: it does not override Env::save_state(); ask can_save_state() first", spec().id);
}

void Env::load_state(std::span<const std::byte> /*state*/) {
  raise("'{}' cannot load a state: it does not override Env::load_state(); ask can_save_state() first", spec().id);
}

}  // namespace parl
