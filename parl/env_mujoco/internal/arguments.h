// MujocoArgs: an environment's options with their defaults, read by type. A task lists each option once, as an
// EnvOption whose default_value is its default; what the user does not give is read from there. A value of the wrong
// kind throws, naming option and value. Any thread, after construction.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parl/env/registry.h"

namespace parl::internal {

struct Range {
  double low, high;
};

class MujocoArgs {
 public:
  // Throws when an argument is not among the options.
  MujocoArgs(std::string id, const EnvArgs& args, std::vector<EnvOption> options);

  const std::string& id() const { return id_; }
  const std::string& text(const std::string& name) const;
  double number(const std::string& name) const;         // not NaN
  double size(const std::string& name) const;           // a number, 0 or more
  int whole(const std::string& name, int least) const;  // least or more
  bool flag(const std::string& name) const;
  Range range(const std::string& name) const;  // "0.2..1", "-inf..10"
  bool is_given(const std::string& name) const { return given_.contains(name); }

  // "frame_skip 5, ctrl_cost_weight 0.1, ...": every option that changes results.
  std::string contract() const;

 private:
  std::string id_;
  EnvArgs given_;
  std::vector<EnvOption> options_;
};

// A number as a whole text ("0.5", "-inf"); throws naming the option.
double parse_number(const std::string& option, const std::string& text);

}  // namespace parl::internal
