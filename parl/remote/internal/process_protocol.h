// What a manager and its worker process say to each other. Frames carry a kind and the number of the call they are
// about.
//
//   worker -> manager   kHello   {Hello}                 first of all
//                       kCreated                         the constructor has returned
//                       kResult  id {result}             results and failures come in the order of the calls
//                       kFailure id {RemoteFailure}      of call id; 0: of the constructor
//                       kGone                            the object is destroyed; the process ends
//   manager -> worker   kCreate  {CreateHead, arguments}
//                       kTake    {CreateHead}            instead of it, for an object that exists already (as_remote)
//                       kCall    id {method u32, arguments}
//                       kGiveUp  id                      nobody waits for call id any more
//                       kGoodbye                         destroy the object after the calls before
//                       kStop                            the same, at once: skip the calls that have not begun
//   both                kSlab    + descriptor            a slab that later frames refer to
// The end of the stream without kGone or kGoodbye is a failure of the peer.
#pragma once

#include <cstdint>
#include <string>

#include "parl/core/fields.h"
#include "parl/remote/place.h"

namespace parl::internal {

enum class FrameKind : uint8_t {
  kHello = 1,
  kSlab,
  kCreate,
  kCreated,
  kCall,
  kResult,
  kFailure,
  kGiveUp,
  kGoodbye,
  kStop,
  kGone,
  kTake,
};

struct Hello {
  int32_t protocol = 0;
  int64_t pid = 0;
};
PARL_FIELDS(Hello, protocol, pid);

struct CreateHead {
  std::string class_name;
  std::string fingerprint;
  std::string constructor;  // its signature
  Placement placement;
  uint64_t slab_bytes = 0;  // how much shared memory the worker may make
};
PARL_FIELDS(CreateHead, class_name, fingerprint, constructor, placement, slab_bytes);

// The worker's option: `--parl-worker fd:3`.
inline constexpr const char* kWorkerOption = "--parl-worker";

}  // namespace parl::internal
