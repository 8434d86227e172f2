// check_algorithm: does an algorithm keep the promises of agent/algorithm.h? Every one of PARL passes it; so should
// yours. It goes by name, as the training loop does (program.h), with the settings that a run would have:
//
//   TEST(Reinforce, KeepsItsPromises) { check_algorithm("reinforce", {.bootstraps = false}); }
//
// or, without a test, `my_program check algorithm reinforce`. Under discrete and under continuous actions, as far as
// the algorithm learns them, it looks at:
//   weights    get_weights() into another object makes it act the same, and an actor too; weights of a wrong shape are
//              an error that changes nothing; evaluation leaves them as they are
//   seeds      the same seed and batches give the same weights and statistics to the bit, another seed others
//   acting     shapes and types; actions come from the uniform numbers and each observation alone, whatever else is in
//              the batch; the stored action is the policy's own: drawn as the behaviour logits say, not clipped; greedy
//              ones are the best
//   restore    weights and state (and replay) into a fresh object: the next learn() is equal to the bit
//   learning   after some updates it takes the action that pays, and learn() left its batches as they were
//   ends       what follows counts where an episode was truncated (its final observation, not that of the next reset)
//              and does not where it terminated
//   bad input  a batch with NaN leaves finite weights
//   devices    where there is a GPU: the same numbers there within tolerance
// An algorithm whose weights carry entries named "exploration/..." explores beside its logits; what it promises of them
// is then not checked, and with noise ("exploration/sigma...") neither are rows alone.
// Throws parl::Error with all that is wrong. Needs no test framework. Takes a second or two.
// Thread rule: one at a time, in the caller's thread: it seeds torch's global generator.
#pragma once

#include <string>
#include <vector>

#include "parl/core/any_config.h"

namespace parl {

struct AlgorithmConformance {
  std::string preset = {};  // empty: that of CartPole-v1, and Pendulum-v1 for continuous actions, where there are such
  AnyConfig settings = {};  // instead of the preset's
  std::string model = {};   // a network by its name; empty: one with a layer or two
  int updates = 60;         // batches of 128 steps within which the action that pays is found
  bool bootstraps = true;   // false: it learns from returns as they were seen (Monte Carlo), and what follows an end
                            // is nothing to it
  std::string device = "auto";  // what is compared with the CPU: "cuda:0", ...; auto: the first GPU, if there is one
};

void check_algorithm(const std::string& algorithm, const AlgorithmConformance& options = {});

// The same as a list of sentences; empty when all is well. Throws when there is no such algorithm, or when it has a
// training of its own (AlgorithmEntry::train), which nothing here could drive.
std::vector<std::string> algorithm_problems(const std::string& algorithm, const AlgorithmConformance& options = {});

}  // namespace parl
