// The process engine: each object in a fresh process of the same executable, over a socketpair, large arrays in shared
// memory. The worker's side starts in parl::init.
#pragma once

#include <memory>

#include "parl/remote/internal/engine.h"

namespace parl::internal {

std::unique_ptr<Engine> make_process_engine(std::shared_ptr<ManagerShared> shared);

// Serves one object over the inherited socket `fd` and ends the process. init() calls it when argv says
// `--parl-worker fd:N`; `fd` is that N.
[[noreturn]] void run_process_worker(int fd);

}  // namespace parl::internal
