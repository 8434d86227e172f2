#include "parl/env/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "parl/env/wrappers.h"

namespace parl {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_options(const EnvFamily& family, const EnvRequest& request) {
  std::vector<std::string> known;
  for (const EnvOption& option : family.options) known.push_back(option.name);
  for (const auto& [name, value] : request.args) {
    if (contains(known, name)) continue;
    raise("environment '{}' has no option '{}'{}; it has: {}", request.id, name, did_you_mean(name, known),
          known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
  }
}

template <typename T>
T parse_number(const EnvArgs& args, const std::string& name, T default_value, const char* expected) {
  const auto it = args.find(name);
  if (it == args.end()) return default_value;
  const std::string& text = it->second;
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    raise("environment option '{}' is '{}'; it must be {}", name, text, expected);
  }
  return value;
}

}  // namespace

void EnvRegistry::add(EnvFamily family) {
  PARL_CHECK(family.names && (family.make || family.make_parallel), "an environment family needs 'names' and 'make'");
  for (const EnvFamily& other : families_) {
    PARL_CHECK(family.prefix.empty() || family.prefix != other.prefix,
               "the environment family '{}' is registered already", family.prefix);
  }
  const auto taken = names();
  for (const std::string& name : family.names()) {
    PARL_CHECK(!contains(taken, name), "the environment '{}' is registered already", name);
  }
  families_.push_back(std::move(family));
}

void EnvRegistry::add(const std::string& id, const std::string& summary,
                      std::function<std::unique_ptr<Env>(const EnvRequest&)> make, std::vector<EnvOption> options) {
  PARL_CHECK(!id.empty(), "an environment needs a name");
  add(EnvFamily{"", summary, [id] { return std::vector{id}; }, std::move(options), std::move(make)});
}

void EnvRegistry::add_parallel(const std::string& id, const std::string& summary,
                               std::function<std::unique_ptr<ParallelEnv>(const EnvRequest&)> make,
                               std::vector<EnvOption> options) {
  PARL_CHECK(!id.empty(), "an environment needs a name");
  add(EnvFamily{"", summary, [id] { return std::vector{id}; }, std::move(options), {}, std::move(make)});
}

std::vector<std::string> EnvRegistry::names() const {
  std::vector<std::string> all;
  for (const EnvFamily& family : families_) {
    for (std::string& name : family.names()) all.push_back(std::move(name));
  }
  return all;
}

const EnvFamily& EnvRegistry::family_of(const std::string& id) const {
  for (const EnvFamily& family : families_) {
    if (contains(family.names(), id)) return family;
  }
  const auto all = names();
  for (const EnvFamily& family : families_) {
    if (family.open && id.starts_with(family.prefix + ":")) return family;
    if (!family.prefix.empty() && id.starts_with(family.prefix + ":")) {
      raise("there is no environment '{}'{}; `parl list envs` shows all", id, did_you_mean(id, family.names()));
    }
  }
  raise("there is no environment '{}'{}; `parl list envs` shows all", id, did_you_mean(id, all));
}

std::vector<std::unique_ptr<Env>> EnvRegistry::make_all(const EnvRequest& request) const {
  const EnvFamily& family = family_of(request.id);
  if (!family.open) check_options(family, request);
  if (family.make_parallel) return make_seats(family.make_parallel(request));
  std::unique_ptr<Env> env = family.make(request);
  PARL_CHECK(env != nullptr, "the factory of '{}' returned no environment", request.id);
  if (!env->records_episodes()) env = std::make_unique<EpisodeStatistics>(std::move(env));
  std::vector<std::unique_ptr<Env>> one;
  one.push_back(std::move(env));
  return one;
}

std::unique_ptr<Env> EnvRegistry::make(const EnvRequest& request) const { return std::move(make_all(request).front()); }

int64_t EnvRegistry::agents_of(const EnvRequest& request) const {
  if (!family_of(request.id).make_parallel) return 1;
  return static_cast<int64_t>(make_all(request).size());
}

std::function<std::unique_ptr<Env>(int index)> EnvRegistry::vector_factory(const EnvRequest& request,
                                                                           int64_t count) const {
  struct Waiting {
    std::vector<std::unique_ptr<Env>> seats;
    size_t next = 0;
  };
  auto waiting = std::make_shared<Waiting>();
  return [this, request, count, waiting](int) {
    if (waiting->next == waiting->seats.size()) {
      waiting->seats = make_all(request);
      waiting->next = 0;
      const auto seats = static_cast<int64_t>(waiting->seats.size());
      PARL_CHECK(
          count % seats == 0,
          "'{}' has {} agents, and each counts as one environment: {} environments would leave a seat empty; take "
          "a multiple of {} (--envs-per-actor, --envs)",
          request.id, seats, count, seats);
    }
    return std::move(waiting->seats[waiting->next++]);
  };
}

int64_t arg_int(const EnvArgs& args, const std::string& name, int64_t default_value) {
  return parse_number<int64_t>(args, name, default_value, "a whole number");
}

double arg_double(const EnvArgs& args, const std::string& name, double default_value) {
  return parse_number<double>(args, name, default_value, "a number");
}

bool arg_bool(const EnvArgs& args, const std::string& name, bool default_value) {
  const auto it = args.find(name);
  if (it == args.end()) return default_value;
  if (it->second == "true" || it->second == "1") return true;
  if (it->second == "false" || it->second == "0") return false;
  raise("environment option '{}' is '{}'; it must be true or false", name, it->second);
}

std::string arg_choice(const EnvArgs& args, const std::string& name, const std::string& default_value,
                       const std::vector<std::string>& choices) {
  const auto it = args.find(name);
  if (it == args.end()) return default_value;
  if (contains(choices, it->second)) return it->second;
  raise("environment option '{}' is '{}'{}; it must be one of: {}", name, it->second, did_you_mean(it->second, choices),
        fmt::join(choices, ", "));
}

}  // namespace parl
