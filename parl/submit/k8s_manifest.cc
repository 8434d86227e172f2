#include "parl/submit/k8s_manifest.h"

#include <algorithm>
#include <limits>

#include "parl/core/check.h"
#include "parl/submit/quote.h"

namespace parl::submit {
namespace {

constexpr int kLearnersGrace = 120, kWorkersGrace = 10;  // seconds from SIGTERM to SIGKILL: a checkpoint takes time

std::string labels(const SubmitPlan& plan, const std::string& role, int indent) {
  const std::string blanks(static_cast<size_t>(indent), ' ');
  return fmt::format("{0}parl-run: {1}\n{0}parl-role: {2}\n", blanks, yaml_quote(plan.name), role);
}

std::string head(const SubmitPlan& plan, const std::string& api, const std::string& kind, const std::string& role) {
  return fmt::format("apiVersion: {}\nkind: {}\nmetadata:\n  name: {}-{}\n  labels:\n{}", api, kind, plan.name, role,
                     labels(plan, role, 4));
}

std::string list(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + yaml_quote(item);
  return "[" + out + "]";
}

std::string variable(const std::string& name, const std::string& value) {
  // $(NAME) would be replaced by Kubernetes; $$ is its $.
  std::string literal;
  for (const char c : value) literal += c == '$' ? "$$" : std::string(1, c);
  return fmt::format("            - name: {}\n              value: {}\n", name, yaml_quote(literal));
}

std::string resources(int cpus, int gpus, int64_t memory) {
  const std::string gpu = gpus > 0 ? fmt::format("              nvidia.com/gpu: {}\n", gpus) : "";
  const std::string same =
      fmt::format("              cpu: {}\n              memory: {}Mi\n{}", cpus, memory >> 20, gpu);
  return fmt::format("          resources:\n            requests:\n{0}            limits:\n{0}", same);
}

// Ready: the kernel's table of connections has one to (state 01) or listens at (0A) the learner's port. Asking it makes
// no connection, so that the learner is not bothered by strangers.
std::string probe(const std::string& what, int port, const std::string& pattern, int period, int failures) {
  const std::string command = fmt::format("grep -qE ':{:04X} {} ' /proc/net/tcp /proc/net/tcp6", port, pattern);
  return fmt::format(
      "          {}:\n            exec:\n              command: {}\n            periodSeconds: {}\n"
      "            failureThreshold: {}\n",
      what, list({"sh", "-c", command}), period, failures);
}

std::string pod(const SubmitPlan& plan, const K8sSettings& settings, const std::string& role, int grace) {
  std::string out = "  template:\n    metadata:\n      labels:\n" + labels(plan, role, 8);
  out += "    spec:\n      restartPolicy: Never\n      automountServiceAccountToken: false\n";
  out += "      shareProcessNamespace: true  # else the program is process 1, which does not heed SIGTERM\n";
  out += fmt::format("      terminationGracePeriodSeconds: {}\n", grace);
  out += fmt::format("      volumes:\n        - name: token\n          secret:\n            secretName: {}-token\n",
                     plan.name);
  out += fmt::format("      containers:\n        - name: {}\n          image: {}\n", role, yaml_quote(settings.image));
  if (!plan.work_directory.empty()) out += fmt::format("          workingDir: {}\n", yaml_quote(plan.work_directory));
  out +=
      "          volumeMounts:\n            - name: token\n              mountPath: /var/run/parl\n              "
      "readOnly: true\n";
  return out;
}

std::vector<std::string> literal(std::vector<std::string> words) {
  for (std::string& word : words) {
    for (size_t at = 0; (at = word.find('$', at)) != std::string::npos; at += 2) word.insert(at, "$");
  }
  return words;
}

}  // namespace

std::string k8s_service(const SubmitPlan& plan) {
  return head(plan, "v1", "Service", "learner") +
         fmt::format("spec:\n  selector:\n{}  ports:\n    - name: parl\n      port: {}\n      targetPort: {}\n",
                     labels(plan, "learner", 4), plan.port, plan.port);
}

std::string k8s_workers(const SubmitPlan& plan, const K8sSettings& settings) {
  const int64_t failures =
      std::min<int64_t>(int64_t{plan.workers} * plan.restarts, std::numeric_limits<int32_t>::max());
  std::string out = head(plan, "batch/v1", "Job", "worker");
  out += fmt::format(
      "spec:\n  completionMode: Indexed\n  completions: {0}\n  parallelism: {0}\n  backoffLimit: {1}\n"
      "  ttlSecondsAfterFinished: 600\n",
      plan.workers, failures);
  out +=
      "  podFailurePolicy:  # a machine that is taken away is no failure of the worker\n    rules:\n"
      "      - action: Ignore\n        onPodConditions:\n          - type: DisruptionTarget\n            status: "
      "\"True\"\n";
  out += pod(plan, settings, "worker", kWorkersGrace);
  out += fmt::format("          command: {}\n          env:\n", list(literal(plan.worker_command())));
  out += variable("PARL_TOKEN_FILE", kK8sTokenFile);
  for (const auto& [name, value] : plan.worker_environment()) out += variable(name, value);
  out += probe("readinessProbe", plan.port, "01", 5, 3);
  return out + resources(plan.cpus, plan.gpus, plan.memory);
}

std::string k8s_learner(const SubmitPlan& plan, const K8sSettings& settings) {
  std::string out = head(plan, "batch/v1", "Job", "learner");
  out += "spec:\n  completions: 1\n  parallelism: 1\n  backoffLimit: 0\n  ttlSecondsAfterFinished: 600\n";
  out += pod(plan, settings, "learner", kLearnersGrace);
  out += fmt::format("          command: {}\n          env:\n", list(literal(plan.learner_command())));
  out += variable("PARL_ENGINE", plan.listen()) + variable("PARL_TOKEN_FILE", kK8sTokenFile);
  out += fmt::format("          ports:\n            - containerPort: {}\n", plan.port);
  out += probe("readinessProbe", plan.port, "[0:]+ 0A", 2, 3);
  return out + resources(settings.learner_cpus, settings.learner_gpus, settings.learner_memory);
}

std::string k8s_secret(const SubmitPlan& plan, const std::string& token) {
  return head(plan, "v1", "Secret", "token") +
         fmt::format("type: Opaque\nstringData:\n  token: {}\n", yaml_quote(token));
}

}  // namespace parl::submit
