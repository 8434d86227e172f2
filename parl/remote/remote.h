// Remote objects: one modifier makes a class parallel. Includes all of the room's public headers.
#pragma once

#include "parl/remote/as_remote.h"  // IWYU pragma: export
#include "parl/remote/error.h"      // IWYU pragma: export
#include "parl/remote/future.h"     // IWYU pragma: export
#include "parl/remote/handle.h"     // IWYU pragma: export
#include "parl/remote/manager.h"    // IWYU pragma: export
#include "parl/remote/modifier.h"   // IWYU pragma: export
#include "parl/remote/options.h"    // IWYU pragma: export
#include "parl/remote/place.h"      // IWYU pragma: export
#include "parl/wire/versioned.h"    // IWYU pragma: export
