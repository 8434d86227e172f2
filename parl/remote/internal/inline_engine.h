// The inline engine: an object lives in its caller's thread; a call is a plain call, made before submit() returns.
// The promises of other engines hold: one call at a time (a call from another thread waits or is run by the thread that
// is in the object), values travel as copies, a call from inside the object's own method runs after that method.
#pragma once

#include <memory>

#include "parl/remote/internal/engine.h"

namespace parl::internal {

std::unique_ptr<Engine> make_inline_engine(std::shared_ptr<ManagerShared> shared);

}  // namespace parl::internal
