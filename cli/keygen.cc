// parl keygen token FILE | parl keygen certificates DIR HOST...
#include "parl/remote/keygen.h"

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace parl::cli {
namespace {

int keygen_token(const Arguments& args) {
  CLI::App app("A secret that a learner and its workers share (PARL_TOKEN_FILE)", "parl keygen token");
  std::string file;
  bool json = false;
  app.add_option("FILE", file, "the file to make; it must not exist")->required();
  app.add_flag("--json", json, kJsonHelp);
  if (!parse(app, args)) return kSuccess;
  make_token(file);
  fmt::print("{}: copy it to where the workers run, and set PARL_TOKEN_FILE on both sides\n", file);
  if (json) JsonLine().add("token_file", file).print();
  return kSuccess;
}

int keygen_certificates(const Arguments& args) {
  CLI::App app("A certificate authority, a learner's and a worker's certificate (PARL_CERTIFICATES)",
               "parl keygen certificates");
  std::string folder;
  std::vector<std::string> hosts;
  bool json = false;
  app.add_option("DIR", folder, "the folder to make them in")->required();
  app.add_option("HOST", hosts, "names and numbers under which workers dial the learner")->required();
  app.add_flag("--json", json, kJsonHelp);
  if (!parse(app, args)) return kSuccess;
  make_certificates(folder, hosts);
  fmt::print(
      "{0}/learner: PARL_CERTIFICATES of the learner\n{0}/worker: PARL_CERTIFICATES of the workers; copy it there\n"
      "{0}/ca: makes more of them; keep its key where nobody else gets at it\n",
      folder);
  if (json) JsonLine().add("learner", folder + "/learner").add("worker", folder + "/worker").print();
  return kSuccess;
}

}  // namespace

int verb_keygen(const Arguments& args) {
  const std::string what = args.empty() ? "" : args[0];
  const Arguments rest(args.empty() ? args.end() : args.begin() + 1, args.end());
  if (what == "token") return keygen_token(rest);
  if (what == "certificates") return keygen_certificates(rest);
  if (what == "--help" || what == "-h") {
    fmt::print("Usage: parl keygen token FILE | parl keygen certificates DIR HOST...\n");
    return kSuccess;
  }
  throw UsageError("parl keygen token FILE, or parl keygen certificates DIR HOST...");
}

}  // namespace parl::cli
