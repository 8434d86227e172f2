// --env-args of the verbs that do not train, as `parl train` takes it: name=value, several with commas or by giving the
// option again; a comma within brackets belongs to its value.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace parl::cli {

// `texts` gets what was given; it must outlive the parsing.
void add_env_args(CLI::App& app, std::vector<std::string>& texts, const std::string& help);
// Sets what they say: "size=42" -> args["size"] = "42". Throws UsageError.
void set_env_args(std::map<std::string, std::string>& args, const std::vector<std::string>& texts);

}  // namespace parl::cli
