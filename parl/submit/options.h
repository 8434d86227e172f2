// What the user of `parl submit` says. One list of fields drives the flags and --help.
#pragma once

#include <string>
#include <vector>

#include "parl/core/config.h"

namespace parl::submit {

enum class Site { kNone, kSsh, kSlurm, kK8s, kRay };
PARL_CONFIG_ENUM(Site, (kNone, "none"), (kSsh, "ssh"), (kSlurm, "slurm"), (kK8s, "k8s"), (kRay, "ray"));

struct SubmitOptions {
  Site on = Site::kNone;
  int workers = 0;
  int slots = 1;
  int cpus = 1;
  int gpus = 0;
  std::string mem = "2G";
  std::string address;
  std::string token_file;
  std::string dir;
  std::string chdir;
  std::string name;
  std::vector<std::string> env;
  int start_with = 0;
  int restarts = 5;
  int patience = 600;
  std::string site_options;
  bool quiet = false;
  bool dry_run = false;

  std::vector<std::string> hosts;
  std::string host_file;
  std::string image;
  std::string k8s_namespace;
  int learner_cpus = 1;
  int learner_gpus = 0;
  std::string learner_mem = "2G";
  std::string ray_address;
  std::string ray_python;

  std::vector<std::string> program;  // what stands after --; not a flag
};
PARL_CONFIG(SubmitOptions, (on, "where the workers run: ssh, slurm, k8s or ray"),
            (workers, "worker processes, also -n; 0: ssh: as many as the hosts have slots"),
            (slots, "objects that each worker serves at once"), (cpus, "processor cores of each worker"),
            (gpus, "GPUs of each worker"), (mem, "memory of each worker: 512M, 2G"),
            (address, "HOST or HOST:PORT under which workers reach the learner; empty: found out, and a free port"),
            (token_file, "the secret that learner and workers share; empty: PARL_TOKEN_FILE, else a new one is made"),
            (dir, "directory for the run's scripts and the workers' logs; empty: runs/submit-<date>-<pid>"),
            (chdir, "directory to run the program in, there; empty: this one (k8s: the image's)"),
            (name, "of the job; empty: parl-<program>-<pid>"),
            (env, "NAME=VALUE for the workers, repeatable; not for secrets"),
            (start_with, "workers that must run before the learner is started; 0: all"),
            (restarts, "times that a worker which fails is started again"),
            (patience, "seconds after which a worker that has lost its learner ends by itself"),
            (site_options, "options for ssh, or for sbatch, as one text: '-p 2222', '--partition=long'"),
            (quiet, "the workers' lines go to their files alone"), (dry_run, "print what would be done, do nothing"),
            (hosts, "ssh: host or host:slots, repeatable"),
            (host_file, "ssh: a file with one host or host:slots a line; # begins a comment"),
            (image, "k8s: the container image that has the program"), (k8s_namespace, "k8s: empty: kubectl's own"),
            (learner_cpus, "k8s: cores of the learner"), (learner_gpus, "k8s: GPUs of the learner"),
            (learner_mem, "k8s: memory of the learner"),
            (ray_address, "ray: the cluster's address; empty: RAY_ADDRESS, else the cluster of this machine"),
            (ray_python, "ray: a Python that has the package ray; empty: PARL_RAY_PYTHON, else python3"));

}  // namespace parl::submit
