// parl bench env|remote|train: figures that anyone can measure again.
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/command.h"

namespace parl::cli {

int verb_bench(const Arguments& args) {
  struct Bench {
    const char* name;
    const char* summary;
    int (*run)(const Arguments&);
  };
  static constexpr Bench kBenches[] = {
      {"env", "steps/s of an environment on 1..N threads", bench_env},
      {"remote", "latency and throughput of remote calls beside bare sockets and threads", bench_remote},
      {"train", "environment, acting and learning alone, their bound, and training itself", bench_train},
  };
  const std::string name = args.empty() ? "--help" : args[0];
  if (name == "--help" || name == "-h") {
    std::cout << "Usage: parl bench NAME [options]      (parl bench NAME --help)\n\n";
    for (const Bench& bench : kBenches) std::cout << fmt::format("  {:<8} {}\n", bench.name, bench.summary);
    return args.empty() ? kUsage : kSuccess;
  }
  std::vector<std::string> names;
  for (const Bench& bench : kBenches) {
    if (name == bench.name) return bench.run(Arguments(args.begin() + 1, args.end()));
    names.emplace_back(bench.name);
  }
  throw UsageError("there is no benchmark '" + name + "'" + did_you_mean(name, names) + " (see: parl bench --help)");
}

}  // namespace parl::cli
