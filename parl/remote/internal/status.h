// A manager's status, put together from its counters. Thread rule: any thread; waits for no I/O.
#pragma once

#include "parl/remote/internal/engine.h"
#include "parl/remote/status.h"

namespace parl::internal {

ManagerStatus describe_manager(Engine& engine, const ManagerShared& shared);

}  // namespace parl::internal
