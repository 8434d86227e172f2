// ParallelEnv: one environment that several agents share and act in at the same time.
//
//   auto game = std::make_unique<Duel>();
//   game->reset(7, obs);                       // obs[i]: where agent i's observation goes
//   while (game->anyone_alive()) game->step(actions, obs, results);
//
// Agents are known by their place in spec().agents, which never changes. Every agent that is alive acts in every step
// and gets its own reward, flags and next observation; one whose flags are set has left, and what stands in its places
// is neither read nor written until the next reset. The game is over when nobody is alive. Agents need not observe or
// do the same things, but a policy that several share needs agents that do. Everything else is as in env.h:
// determinism, seeds, places, errors, thread rule, no allocation in a warm step. Source of the contract: PettingZoo's
// Parallel API (Terry et al. 2021, arXiv 2009.14471).
//
// make_seats() puts a game into the shape that everything else knows: one Env for each agent. parallel_conformance.h
// looks at games as env_conformance.h does at environments.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parl/env/env.h"

namespace parl {

struct AgentSpec {
  std::string name;  // "left", "hunter_2"; unique in its game
  Box observation;
  Space action;
  bool operator==(const AgentSpec&) const = default;
};

struct ParallelSpec {
  std::string id;
  std::vector<AgentSpec> agents;
  std::string contract;  // one line that names every setting that changes results
};

class ParallelEnv {
 public:
  using Places = std::span<const std::span<std::byte>>;  // one for each agent

  virtual ~ParallelEnv() = default;
  virtual const ParallelSpec& spec() const = 0;
  // Everybody is alive again.
  virtual void reset(std::optional<uint64_t> seed, Places obs) = 0;
  // actions, obs, results: one for each agent; those of agents that have left are left alone.
  virtual void step(std::span<const Action> actions, Places obs, std::span<StepResult> results) = 0;
  virtual bool alive(size_t agent) const = 0;
  bool anyone_alive() const;

  // User scalars of one agent's episode so far.
  virtual void scalars(size_t /*agent*/, std::vector<std::pair<std::string, double>>& /*out*/) const {}
  virtual void render(Image& out);
  virtual bool can_save_state() const { return false; }
  virtual std::vector<std::byte> save_state() const;
  virtual void load_state(std::span<const std::byte> state);
};

// One Env for each agent, in the order of spec().agents; they share the game, which lives as long as one of them does.
//
// A step of the game happens when all seats step: put all of them into one VectorEnv, side by side (EnvRegistry's
// vector_factory does), or prepare() each before stepping the first. Seeds: the first seat's seed is the game's. An
// agent that leaves before the others sees zeros until the game is over; each of those steps ends at once (terminated,
// reward 0), so that nothing is learnt through it, and it is not part of any episode. Each seat records its agent's
// episodes: raw return, length, and the return once more as the scalar "return/<agent>", which tells the agents apart
// where a mean over all says nothing. Seats may be stepped by different threads of one VectorEnv. spec(): id, spaces
// and contract of the agent; `agents` names all.
std::vector<std::unique_ptr<Env>> make_seats(std::unique_ptr<ParallelEnv> game);

}  // namespace parl
