#include "parl/remote/internal/tcp_choice.h"

#include <algorithm>
#include <utility>

namespace parl::internal {
namespace {

bool can_build(const OfferedClass& offered, const CreateRequest& request) {
  const std::string& wanted = request.constructor->constructor().signature;
  return std::find(offered.constructors.begin(), offered.constructors.end(), wanted) != offered.constructors.end();
}

std::string where(const TcpPeer& peer) { return fmt::format("{} (pid {})", peer.host(), peer.pid()); }

}  // namespace

// The one with the fewest objects, so that they spread over machines.
std::shared_ptr<TcpObjectLink> choose_worker(const TcpPeers& peers, const CreateRequest& request, GpuBook& gpus) {
  const std::string own = fingerprint(*request.info);
  const GpuWish wish(request.place);
  std::vector<std::pair<int, std::shared_ptr<TcpPeer>>> able;
  for (const auto& peer : peers) {
    if (peer->is_object() || peer->vacant() <= 0) continue;
    const OfferedClass* offered = peer->find(request.info->name);
    if (!offered || offered->fingerprint != own || !can_build(*offered, request)) continue;
    able.emplace_back(peer->used(), peer);
  }
  std::stable_sort(able.begin(), able.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [used, peer] : able) {
    auto lease = gpus.try_take(peer->host(), peer->gpus(), wish);
    if (!lease) continue;
    if (auto link = peer->reserve(std::move(*lease))) return link;
  }
  return nullptr;
}

std::shared_ptr<TcpObjectLink> choose_object(const TcpPeers& peers, const CreateRequest& request) {
  const std::string own = fingerprint(*request.info);
  for (const auto& peer : peers) {
    if (!peer->is_object()) continue;
    const OfferedClass* offered = peer->find(request.info->name);
    if (!offered || offered->fingerprint != own) continue;
    if (auto link = peer->reserve({})) return link;
  }
  return nullptr;
}

std::string why_no_worker(const TcpPeers& peers, const CreateRequest& request, GpuBook& gpus,
                          const std::string& address) {
  const std::string own = fingerprint(*request.info);
  const GpuWish wish(request.place);
  int workers = 0, slots = 0, used = 0, matching = 0;
  std::string difference, devices;
  for (const auto& peer : peers) {
    if (peer->is_object()) continue;
    ++workers;
    slots += peer->slots();
    used += peer->used();
    const OfferedClass* offered = peer->find(request.info->name);
    if (!offered) {
      difference =
          fmt::format("; the worker on {} does not offer the class (parl::offer in its main does)", where(*peer));
    } else if (offered->fingerprint != own) {
      difference = peer->how_it_differs(*offered, own);
    } else if (!can_build(*offered, request)) {
      difference = fmt::format(
          "; the worker on {} cannot build {}{}; it offers: {}{}. parl::offer<Class(arguments)>() in its main offers "
          "more",
          where(*peer), request.info->name, request.constructor->constructor().signature, request.info->name,
          fmt::join(offered->constructors, ", " + request.info->name));
    } else {
      ++matching;
      if (!wish.is_empty())
        devices = fmt::format("; {} asked for, and the worker on {} has {} (--gpus 0,1 says which it offers)",
                              wish.text(), where(*peer), gpus.describe(peer->host(), peer->gpus()));
    }
  }
  std::string text =
      fmt::format("no place for a {}: {} workers are connected to {}, {} offer the class, {} of {} slots are in use",
                  request.info->name, workers, address, matching, used, slots);
  if (workers == 0) text += fmt::format(". Start some: <program> --parl-worker {} --slots N", address);
  return text + (matching == 0 ? difference : devices);
}

std::string why_no_object(const TcpPeers& peers, const CreateRequest& request, const std::string& address) {
  const std::string own = fingerprint(*request.info);
  int objects = 0;
  std::string difference;
  for (const auto& peer : peers) {
    if (!peer->is_object()) continue;
    ++objects;
    const OfferedClass* offered = peer->find(request.info->name);
    if (offered && offered->fingerprint != own) difference = peer->how_it_differs(*offered, own);
  }
  return fmt::format("no {} has dialled in to {} and is free ({} objects of all classes are there){}",
                     request.info->name, address, objects, difference);
}

}  // namespace parl::internal
