#include "parl/remote/engine_name.h"

#include <algorithm>
#include <vector>

#include "parl/core/check.h"
#include "parl/remote/internal/address.h"
#include "parl/remote/internal/tcp_engine.h"
#include "parl/remote/options.h"

namespace parl {

void check_engine_name(const std::string& given) {
  const std::string name = given.empty() ? internal::resolve({}).engine : given;
  if (internal::is_tcp_engine(name)) {
    internal::parse_address(name);
    return;
  }
  static const std::vector<std::string> kNames = {"inline", "thread", "process"};
  if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) return;
  raise("there is no engine '{}'{}; engines: inline, thread, process, tcp://host:port", name,
        did_you_mean(name, kNames));
}

}  // namespace parl
