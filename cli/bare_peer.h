// The yardsticks of `parl bench remote`: what a round trip and a block of bytes cost without any library.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace parl::cli {

class BarePeer {
 public:
  static constexpr size_t kBytes = size_t{4} << 20;
  virtual ~BarePeer() = default;
  // There and back, blocking.
  virtual void round_trip() = 0;
  // So many bytes to the other side, and its word that it has them. Both sides use their memory again.
  virtual void send_block(size_t bytes = kBytes) = 0;
};

// "inline", "thread", "process" or "tcp"; starts the other side, which inherits the caller's affinity. The last two
// fork: make them before there are threads that matter.
std::unique_ptr<BarePeer> make_bare_peer(const std::string& engine);

}  // namespace parl::cli
