// Who starts, watches and ends the workers at one kind of site: one file per site, found by make_launcher().
//
// run() (submit.h) calls, in this order and on one thread: check_tools, describe (with --dry-run: nothing further),
// start, step() again and again, stop. A launcher tells the board what becomes of each worker and what it prints; it
// starts what fails again, as far as the site does not. Secrets pass by files and stdin, never on a command line.
// Errors: parl::Error.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "parl/submit/board.h"
#include "parl/submit/plan.h"
#include "parl/submit/process_loop.h"

namespace parl::submit {

struct SubmitOptions;

class Launcher {
 public:
  virtual ~Launcher() = default;

  // The name under which workers reach a learner on this machine, as far as it can be guessed. Empty: "<name>-learner",
  // which the site makes.
  virtual std::string host_of_learner() const { return this_host(); }
  // Throws, naming the package, when what the site needs is not installed here.
  virtual void check_tools() const = 0;
  // What start() will do, as scripts, commands or a manifest; without secrets.
  virtual std::string describe(const SubmitPlan& plan) const = 0;
  // The directory of the plan is there, and the token. Does not wait for workers to run.
  virtual void start(const SubmitPlan& plan, ProcessLoop& loop, Board& board) = 0;
  // Called some times a second.
  virtual void step() = 0;
  // Ends all workers, and waits for that, within bounds.
  virtual void stop() = 0;

  // False: the learner runs at the site too (Kubernetes): start_learner() is called when the workers are there, and
  // learner_code() gives its exit code once it has ended.
  virtual bool has_local_learner() const { return true; }
  virtual void start_learner() {}
  virtual void stop_learner() {}
  virtual std::optional<int> learner_code() const { return std::nullopt; }

  // The directory is read by the workers themselves (a shared file system): the site writes their logs there.
  virtual bool writes_logs() const { return false; }
};

// May fill in `options`: ssh takes the number of workers from the hosts. Throws: options that do not fit the site.
std::unique_ptr<Launcher> make_launcher(SubmitOptions& options);

std::unique_ptr<Launcher> make_ssh_launcher(SubmitOptions& options);
std::unique_ptr<Launcher> make_slurm_launcher(SubmitOptions& options);
std::unique_ptr<Launcher> make_k8s_launcher(SubmitOptions& options);
std::unique_ptr<Launcher> make_ray_launcher(SubmitOptions& options);

}  // namespace parl::submit
