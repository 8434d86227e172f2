// The thread engine: each object on a thread of its own in this process. Arguments and results are moved, nothing is
// serialised. Large arrays that the object makes come from a pool of its own and return to it (no page faults after
// the first round). A thread that is still in user code at the end of shutdown() is named in an error and left alone.
#pragma once

#include <memory>

#include "parl/remote/internal/engine.h"

namespace parl::internal {

std::unique_ptr<Engine> make_thread_engine(std::shared_ptr<ManagerShared> shared);

}  // namespace parl::internal
