// Which worker of a learner builds the next object, which object that dialled in is taken next, and why there is none.
// Thread rule: under the lock that guards the list of peers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parl/remote/internal/engine.h"
#include "parl/remote/internal/tcp_peer.h"

namespace parl::internal {

using TcpPeers = std::vector<std::shared_ptr<TcpPeer>>;

// A place, which is the caller's now, with its GPUs. Null: none at present.
std::shared_ptr<TcpObjectLink> choose_worker(const TcpPeers& peers, const CreateRequest& request, GpuBook& gpus);
std::shared_ptr<TcpObjectLink> choose_object(const TcpPeers& peers, const CreateRequest& request);

// For a refusal; `address`: the learner's.
std::string why_no_worker(const TcpPeers& peers, const CreateRequest& request, GpuBook& gpus,
                          const std::string& address);
std::string why_no_object(const TcpPeers& peers, const CreateRequest& request, const std::string& address);

}  // namespace parl::internal
