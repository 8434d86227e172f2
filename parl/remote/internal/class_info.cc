#include "parl/remote/internal/class_info.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "parl/core/check.h"

namespace parl::internal {
namespace {

// Filled during static initialisation, before main: seeds only. Resolved on first look.
struct Factory {
  std::mutex mutex;
  std::vector<FactorySeed> seeds;
  size_t resolved = 0;
  std::map<std::string, std::unique_ptr<FactoryEntry>, std::less<>> entries;
  std::string conflict;
};

Factory& factory() {
  static Factory* table = new Factory;  // outlives every static object that may still use it
  return *table;
}

void resolve_seeds(Factory& f) {
  for (; f.resolved < f.seeds.size(); ++f.resolved) {
    const FactorySeed& seed = f.seeds[f.resolved];
    const ClassInfo& info = seed.info();
    auto& entry = f.entries[info.name];
    if (!entry) entry = std::make_unique<FactoryEntry>(FactoryEntry{&info, {}});
    if (entry->info != &info) {
      f.conflict = fmt::format(
          "two classes bear the name '{}': {} at {} and {} at {}; give one of them another with "
          "PARL_REMOTE_CLASS_AS(\"name\", Class, methods...)",
          info.name, entry->info->type, entry->info->declared_at, info.type, info.declared_at);
      continue;
    }
    ConstructorInfo constructor{seed.signature(), seed.construct_wire};
    auto& list = entry->constructors;
    const bool is_known =
        std::any_of(list.begin(), list.end(), [&](const auto& c) { return c.signature == constructor.signature; });
    if (!is_known) list.push_back(std::move(constructor));
  }
}

}  // namespace

bool enter_factory(FactorySeed seed) {
  Factory& f = factory();
  std::lock_guard lock(f.mutex);
  f.seeds.push_back(seed);
  return true;
}

const FactoryEntry* find_class(std::string_view name) {
  Factory& f = factory();
  std::lock_guard lock(f.mutex);
  resolve_seeds(f);
  const auto it = f.entries.find(name);
  return it == f.entries.end() ? nullptr : it->second.get();
}

std::vector<std::string> offered_classes() {
  Factory& f = factory();
  std::lock_guard lock(f.mutex);
  resolve_seeds(f);
  std::vector<std::string> names;
  for (const auto& [name, entry] : f.entries) names.push_back(name);
  return names;
}

void check_factory() {
  Factory& f = factory();
  std::lock_guard lock(f.mutex);
  resolve_seeds(f);
  if (!f.conflict.empty()) throw Error(f.conflict);
}

std::string fingerprint(const ClassInfo& info) {
  std::string out = fmt::format("parl-remote {}; class {}", kProtocolVersion, info.name);
  for (const MethodInfo& m : info.methods) out += fmt::format("; {}{}", m.name, m.signature);
  return out;
}

}  // namespace parl::internal
