// record(): an agent, or chance, plays whole episodes, and everything is kept (parl/data/recording.h) to be learnt
// from: by behaviour cloning, or by an algorithm that learns from any policy's experience.
//
// The environments are those of training: rewards clipped, lives as in its contract, so that a run of the same
// environment can use the file in their place. Episodes are fixed in advance by quota per environment, as in
// evaluation. Several agents' episodes of a shared environment stand one after another. Thread rule: the caller's
// thread.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "parl/agent/algorithm.h"
#include "parl/data/recording.h"

namespace parl {

struct RecordOptions {
  std::string env = {};
  std::map<std::string, std::string> env_args = {};
  int64_t episodes = 10;
  int64_t envs = 8;             // at most; never more than episodes
  std::string policy = "auto";  // as in evaluation; without an algorithm: any legal action is as likely as another
  uint64_t seed = 0;
  std::function<bool()> stop = {};  // asked once a step; true ends it, with the episodes that are whole
};

// `algorithm` may be null. Throws when no episode was finished.
RecordedEpisodes record(Algorithm* algorithm, const RecordOptions& options);

}  // namespace parl
