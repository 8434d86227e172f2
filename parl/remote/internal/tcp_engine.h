// The tcp engine: objects in worker processes that dial in, from this machine or others. The learner listens; a worker
// (tcp_worker.h) offers slots, an actor's program (as_remote.h) one object.
#pragma once

#include <memory>

#include "parl/remote/internal/engine.h"

namespace parl::internal {

// True for "tcp://..." and "unix:...".
bool is_tcp_engine(const std::string& engine);

// Listens on options.engine, and writes the port that it got into it. Throws parl::Error: the address is in use, or
// reaches beyond this machine and is not guarded.
std::unique_ptr<Engine> make_tcp_engine(std::shared_ptr<ManagerShared> shared);

}  // namespace parl::internal
