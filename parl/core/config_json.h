// A configuration's JSON, looked at before it is known whose fields it sets.
// `where` is named in errors ("file.json"). Thread rule: any thread. Errors: parl::Error for text that is no JSON
// object.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parl/core/config.h"

namespace parl {

// The paths of all values that it names: "steps", "impala.lr".
std::vector<std::string> config_paths(const std::string& text, const std::string& where);
// The value of a key at the top; empty when it is not there.
std::optional<ConfigValue> config_value(const std::string& text, const std::string& key, const std::string& where);
// config_from_json() without the keys `skip` at the top.
void config_from_json(const ConfigFields& fields, const std::string& text, const std::string& where,
                      const std::vector<std::string>& skip);

}  // namespace parl
