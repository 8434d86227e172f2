// `parl submit`: a learner here and its workers at a site that exists. Starts the workers, then the learner when enough
// of them run, shows states and lines, and ends the workers when the learner has ended.
//
// The learner is the program as its user would start it, with PARL_ENGINE and PARL_TOKEN_FILE set, its stdout and
// stderr ours and no stdin. Ctrl-C (SIGINT), SIGTERM and SIGHUP are handed to it, and the workers end after it; the
// second one kills it. If no worker is left, it gets SIGTERM. While run() works these signals are its own.
#pragma once

#include <string>

#include "parl/submit/options.h"

namespace parl::submit {

// The learner's exit code (128 + signal when one killed it); 1: no worker is left; 130: interrupted before there was a
// learner. With --dry-run: prints the plan to stdout, 0. Blocks until the end. Throws parl::Error: what cannot work is
// refused before anything starts.
int run(SubmitOptions options);

// Throws parl::Error for options that cannot be right, wherever they run. Starts nothing.
void check(SubmitOptions options);

// What --dry-run prints.
std::string dry_run(SubmitOptions options);

}  // namespace parl::submit
