#include "cli/config_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace parl::cli {
namespace {

std::string group_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "Options" : "Options of " + path.substr(0, dot);
}

int kind_of(const ConfigField& field) { return field.is_switch ? 1 : field.is_list ? 2 : 0; }

}  // namespace

void ConfigFlags::add_to(CLI::App& app, const ConfigFields& fields, const std::vector<std::string>& skip) {
  for (const ConfigField& field : fields) {
    if (std::find(skip.begin(), skip.end(), field.path) != skip.end()) continue;
    const std::string flag = field.flag, name = "--" + flag;
    if (options_.count(flag)) {
      PARL_CHECK(
          kinds_.at(flag) == kind_of(field),
          "--{} is a switch, a list or a plain value in one algorithm's settings and something else in another's: "
          "rename '{}'",
          flag, field.path);
      continue;
    }
    kinds_[flag] = kind_of(field);
    CLI::Option* option = nullptr;
    if (field.is_switch) {
      option = app.add_flag_function(
          name, [this, flag](int64_t count) { texts_[flag] = count > 0 ? "true" : "false"; }, field.help);
      app.add_flag_function("--no-" + flag,
                            [this, flag](int64_t count) { texts_[flag] = count > 0 ? "false" : "true"; })
          ->group("");  // not in --help
    } else if (field.is_list) {
      option = app.add_option_function<std::vector<std::string>>(
          name,
          [this, flag](const std::vector<std::string>& parts) {
            texts_[flag] = fmt::format("{}", fmt::join(parts, ","));
          },
          field.help);
      option->allow_extra_args(false)->type_name(field.type);
    } else {
      option = app.add_option_function<std::string>(
          name, [this, flag](const std::string& text) { texts_[flag] = text; }, field.help);
      option->type_name(field.type)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
    option->group(group_of(field.path));
    options_[flag] = option;
  }
}

void ConfigFlags::show_defaults(const ConfigFields& fields) {
  for (const auto& [flag, option] : options_) {
    const ConfigField* field = config_find(fields, flag);
    option->group(field ? group_of(field->path) : "");
    if (!field) continue;
    const std::string text = config_text(field->get());
    option->description(field->help)->default_str(text.empty() ? "\"\"" : text);
  }
}

void ConfigFlags::check_known(const ConfigFields& fields, const std::string& who) const {
  std::vector<std::string> known;
  for (const ConfigField& field : fields) known.push_back("--" + field.flag);
  for (const auto& [flag, text] : texts_) {
    if (!config_find(fields, flag)) raise("{} has no --{}{}", who, flag, did_you_mean("--" + flag, known));
  }
}

void ConfigFlags::apply(const ConfigFields& fields) const {
  for (const auto& [flag, text] : texts_) {
    const ConfigField* field = config_find(fields, flag);
    if (!field) continue;
    const ConfigValue before = field->get();
    config_set(fields, flag, text);
    if (const auto* old = std::get_if<ConfigMap>(&before)) {
      ConfigMap merged = *old;
      const ConfigValue now = field->get();
      for (const auto& [key, value] : std::get<ConfigMap>(now)) merged[key] = value;
      field->set(merged);
    }
  }
}

}  // namespace parl::cli
