// parl submit --on ssh|slurm|k8s|ray -n N [options] -- PROGRAM [arguments]
#include "parl/submit/submit.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/command.h"
#include "cli/config_flags.h"

namespace parl::cli {

int verb_submit(const Arguments& args) {
  const auto dashes = std::find(args.begin(), args.end(), "--");
  CLI::App app(
      "A learner here and its workers at a site that exists: --on ssh, slurm, k8s or ray, then -- and the program with "
      "the learner's arguments. The workers run the same program as <program> --parl-worker <address> --slots N; they "
      "end with the learner, whose exit code is this one's",
      "parl submit");
  submit::SubmitOptions options;
  const ConfigFields fields = config_fields(options);
  ConfigFlags flags;
  std::string workers;
  bool json = false;
  flags.add_to(app, fields);
  app.add_option("-n", workers, "the same as --workers")->type_name("integer");
  app.add_flag("--json", json, kJsonHelp);
  app.footer("parl submit --on ssh --hosts a:4,b:4 -- ./hello_remote\n(docs/submit.md has an example for each site)");
  if (!parse(app, Arguments(args.begin(), dashes))) return kSuccess;
  try {
    flags.apply(fields);
    if (!workers.empty()) config_set(fields, "workers", workers);
    if (dashes != args.end()) options.program.assign(dashes + 1, args.end());
    if (options.program.empty()) raise("what shall run? parl submit [options] -- PROGRAM [arguments]");
    const bool is_counted = !workers.empty() || flags.given("workers");
    if (is_counted && options.workers < 1) raise("--workers (-n) must be at least 1, not {}", options.workers);
    submit::check(options);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  const int code = submit::run(options);
  if (json) JsonLine().add("code", code).print();
  return code;
}

}  // namespace parl::cli
