// The Kubernetes objects of a run, as YAML: an Indexed Job for the workers, a Job and a Service for the learner, a
// Secret for the token. All bear the label parl-run=<name>. Thread rule: any thread.
#pragma once

#include <cstdint>
#include <string>

#include "parl/submit/plan.h"

namespace parl::submit {

struct K8sSettings {
  std::string image;
  int learner_cpus = 1, learner_gpus = 0;
  int64_t learner_memory = 0;  // bytes
};

inline constexpr const char* kK8sTokenFile = "/var/run/parl/token";

std::string k8s_service(const SubmitPlan& plan);
std::string k8s_workers(const SubmitPlan& plan, const K8sSettings& settings);
std::string k8s_learner(const SubmitPlan& plan, const K8sSettings& settings);
// Carries the token: for kubectl's stdin, not for eyes.
std::string k8s_secret(const SubmitPlan& plan, const std::string& token);

}  // namespace parl::submit
