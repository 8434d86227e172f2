// The run that `parl submit` makes of its options: who starts what where, and how they find each other. A Launcher
// (launcher.h) carries out the workers' part, run() (submit.h) the learner's.
//
// No secret is in a plan: the token is the name of a file. Thread rule: a value.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "parl/core/process.h"

namespace parl::submit {

struct SubmitOptions;

struct Host {
  std::string name;  // as ssh takes it
  int slots = 0;     // workers that it takes; 0: any number
};

struct SubmitPlan {
  std::string name;  // lower case letters, digits and dashes
  int workers = 0, slots = 1, cpus = 1, gpus = 0;
  int64_t memory = 0;          // bytes
  std::string host;            // where workers dial
  int port = 0;                //
  std::string directory;       // absolute
  std::string work_directory;  // where workers run; empty: the site's own
  std::string token_file;      // absolute
  bool token_is_new = false;   // to be made, and removed at the end
  int start_with = 1, restarts = 5, patience = 600;
  bool is_quiet = false;
  std::vector<std::string> program;                              // with the learner's arguments
  std::vector<std::pair<std::string, std::string>> environment;  // of the workers
  std::vector<std::string> site_options;

  std::string dial() const;    // "tcp://host:port"
  std::string listen() const;  // the same for a loopback address, else every interface
  // <program> --parl-worker tcp://host:port --slots N
  std::vector<std::string> worker_command() const;
  // The program and its arguments, in which "{engine}" is replaced by listen(), for programs whose own option beats
  // PARL_ENGINE.
  std::vector<std::string> learner_command() const;
  // What every worker gets besides PARL_TOKEN_FILE: PARL_WORKER_PATIENCE and its kin, and --env.
  std::vector<std::pair<std::string, std::string>> worker_environment() const;
  std::string log_file(int worker) const;
};

// `default_host`: when --address names none; `has_local_learner`: its port is looked for here. Throws parl::Error that
// names the option.
SubmitPlan make_plan(const SubmitOptions& options, const std::string& default_host, bool has_local_learner);

// "512M" -> bytes; K, M, G and T are powers of 1024.
int64_t parse_memory(const std::string& text);

// Of --hosts and --host-file.
std::vector<Host> parse_hosts(const std::vector<std::string>& hosts, const std::string& file);

// The host of each of `workers`, dealt out in turn; 0: as many as there are slots.
std::vector<std::string> deal_hosts(const std::vector<Host>& hosts, int workers);

bool is_loopback(const std::string& host);
// Of this machine's addresses the one from which `host` is reached; empty: not known.
std::string address_towards(const std::string& host);

}  // namespace parl::submit
