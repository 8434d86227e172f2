#include "parl/agent/per_agent.h"

#include <set>
#include <utility>

#include "parl/agent/algorithm.h"
#include "parl/core/check.h"

namespace parl {

void append_of_agent(Weights& all, const std::string& agent, Weights part) {
  const std::string front = kExploration;
  for (NamedArray& entry : part.entries) {
    entry.name = entry.name.starts_with(front) ? front + agent + "/" + entry.name.substr(front.size())
                                               : agent + "/" + entry.name;
    all.entries.push_back(std::move(entry));
  }
}

Weights part_of_agent(const Weights& all, const std::string& agent) {
  Weights part;
  const std::string plain = agent + "/", exploration = kExploration + plain;
  for (const NamedArray& entry : all.entries) {
    if (entry.name.starts_with(plain)) {
      part.entries.push_back({entry.name.substr(plain.size()), entry.array});
    } else if (entry.name.starts_with(exploration)) {
      part.entries.push_back({kExploration + entry.name.substr(exploration.size()), entry.array});
    }
  }
  return part;
}

Weights weights_of_agent(const Weights& all, const std::string& agent) {
  Weights part = part_of_agent(all, agent);
  if (!part.entries.empty()) return part;
  std::set<std::string> agents;
  for (const NamedArray& entry : all.entries) {
    const size_t end = entry.name.find('/');
    if (end != std::string::npos) agents.insert(entry.name.substr(0, end));
  }
  raise("these weights have nothing of an agent '{}'; {}", agent,
        agents.empty() ? "they are of one network for all" : fmt::format("they are of: {}", fmt::join(agents, ", ")));
}

}  // namespace parl
