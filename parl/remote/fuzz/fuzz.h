// Fuzz targets: everything that decodes what a peer or a stranger sent, fed with anything.
//
//   archive    every type that travels, from a head and attachments of any size            parl/wire/archive.h
//   frames     streams cut into pieces: FrameParser, MuxReader; what MuxSender sends        internal/frame.h, mux.h
//   calls      a learner's object channel, and a worker's object, with a hostile other end  internal/wire_channel.h,
//                                                                                           object_runner.h
//   handshake  a learner and a worker of the tcp engine on a socket                         internal/tcp_peer.h,
//                                                                                           tcp_worker.h
//
// replay_test.cc runs them over the corpus (fuzz/corpus/<target>), with any compiler; libFuzzer runs them when CMake is
// given PARL_FUZZ (preset `fuzz`, clang): build-fuzz/rooms/remote/fuzz/fuzz_<target> parl/remote/fuzz/corpus/<target>.
// Thread rule: one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "parl/wire/archive.h"

namespace parl::fuzz {

using Input = std::span<const uint8_t>;

// Takes any bytes and returns; a broken promise ends the process.
using Target = void(Input);
Target archive, frames, calls, handshake;

// A check of the target itself, in every build.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: not true: %s\n", what);
  std::abort();
}

// Decisions from the front of the input; zeros when it is used up.
class Source {
 public:
  explicit Source(Input data) : data_(data) {}
  bool empty() const { return data_.empty(); }
  uint8_t byte() {
    if (data_.empty()) return 0;
    const uint8_t first = data_.front();
    data_ = data_.subspan(1);
    return first;
  }
  template <typename T>
  T number() {
    T value{};
    const Input bytes = take(sizeof value);
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  Input take(size_t n) {
    const Input out = data_.first(std::min(n, data_.size()));
    data_ = data_.subspan(out.size());
    return out;
  }
  Input rest() { return take(data_.size()); }

 private:
  Input data_;
};

inline std::span<const std::byte> as_bytes(Input data) { return std::as_bytes(data); }
inline std::vector<std::byte> copy_bytes(Input data) {
  const auto bytes = as_bytes(data);
  return {bytes.begin(), bytes.end()};
}

// A block of exactly so many bytes, so that the sanitizer sees one too many.
ArrayBlock exact_block(size_t bytes, uint8_t fill);

// What a socket would have brought: a number of attachments, the size of each (up to 1 MiB; most are near the limit
// for small values) and what they are filled with.
std::vector<ReceivedAttachment> take_attachments(Source& source);

}  // namespace parl::fuzz
