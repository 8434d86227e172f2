// ConfigFlags: a config struct's field list as command-line options, --help with every default included.
//
// Values are kept as text while CLI11 parses, and applied later: defaults < preset < file < flags needs that order.
// Errors: parl::Error from apply() ("--lr wants a number, got 'abc'").
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/command.h"
#include "parl/core/config.h"

namespace CLI {
class Option;
}

namespace parl::cli {

class ConfigFlags {
 public:
  // One option per field but those whose path is in `skip` and those whose flag is there already. The group in the help
  // text is the struct around a field.
  void add_to(CLI::App& app, const ConfigFields& fields, const std::vector<std::string>& skip = {});

  // Sets the fields that were given on the command line. Maps (key=value) are merged into what is there.
  void apply(const ConfigFields& fields) const;
  bool given(const std::string& flag) const { return texts_.count(flag) > 0; }

  // Throws when a flag was given that is none of these fields'. `who` has them: an algorithm's name.
  void check_known(const ConfigFields& fields, const std::string& who) const;

  // The defaults and texts that --help shows; options that are none of these fields' are hidden.
  void show_defaults(const ConfigFields& fields);

 private:
  std::map<std::string, std::string> texts_;  // by flag
  std::map<std::string, CLI::Option*> options_;
  std::map<std::string, int> kinds_;  // switch, list or plain
};

}  // namespace parl::cli
