// `parl submit --on k8s`: its manifests against the schemas of Kubernetes, and its dealings with kubectl against a
// stand-in that runs the pods as processes here (there is no cluster in a test).
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "parl/core/files.h"
#include "parl/submit/site_test.h"
#include "parl/submit/submit.h"

namespace parl::submit {
namespace {

namespace fs = std::filesystem;

class K8sLauncherTest : public SiteTest {
 protected:
  SubmitOptions k8s_options() const {
    SubmitOptions o = options(Site::kK8s);
    o.image = "registry.example/hello:1";
    o.name = "hello";
    return o;
  }

  // The stand-in notes its arguments and stdin. Pods are what the test writes into "pods".
  void install_kubectl() const {
    fs::create_directory(folder_ + "/bin");
    const std::string file = folder_ + "/bin/kubectl";
    write_file_atomically(file, fmt::format("#!/bin/sh\nd='{}'\necho \"$@\" >>\"$d/calls\"\n"
                                            "case \"$1\" in\n"
                                            "create) cat >>\"$d/created\"; echo --- >>\"$d/created\";;\n"
                                            "get) cat \"$d/pods\" 2>/dev/null;;\n"
                                            "logs) echo \"line of $3\";;\n"
                                            "esac\nexit 0\n",
                                            folder_));
    ::chmod(file.c_str(), 0755);
    ::setenv("PATH", (folder_ + "/bin:" + std::getenv("PATH")).c_str(), 1);
  }

  void set_pods(const std::string& lines) const { write_file_atomically(folder_ + "/pods", lines); }
  std::string created() const { return contents_or_empty(folder_ + "/created"); }
  std::string calls() const { return contents_or_empty(folder_ + "/calls"); }

  static bool can_validate() {
    return std::string(PARL_SITES_PYTHON) != "" &&
           run_command({{PARL_SITES_PYTHON, "-c", "import kubernetes_validate"}}, std::chrono::seconds(120)).code == 0;
  }
  void expect_valid(const std::string& manifest) const {
    const std::string file = folder_ + "/manifest.yaml";
    write_file_atomically(file, manifest);
    const std::string validate = fs::path(PARL_SITES_PYTHON).parent_path().string() + "/kubernetes-validate";
    const Outcome outcome = run_command({{validate, "--strict", "-k", "1.31", file}}, std::chrono::seconds(120));
    EXPECT_EQ(outcome.code, 0) << outcome.output << manifest;
    fs::remove(file);
  }
};

TEST_F(K8sLauncherTest, ItsManifestsFitTheSchemas) {
  if (!can_validate()) GTEST_SKIP() << "no Python with kubernetes-validate: PARL_TEST_SITES=k8s scripts/setup.sh";
  SubmitOptions o = k8s_options();
  expect_valid(dry_run(o));
  o.gpus = 1;
  o.learner_gpus = 2;
  o.chdir = "/work: dir";
  o.env = {"A=\"quoted\": {x} $HOME"};
  o.program.insert(o.program.end(), {"--text", "it's: {strange} #1 \"x\" \\ \n"});
  expect_valid(dry_run(o));
}

TEST_F(K8sLauncherTest, TheManifestSaysWhatWasAskedFor) {
  SubmitOptions o = k8s_options();
  o.workers = 64;
  o.cpus = 3;
  o.address = "";
  o.program = {"/bin/prog", "--steps", "$5"};
  const std::string text = dry_run(o);
  for (const char* expected :
       {"completionMode: Indexed\n  completions: 64\n  parallelism: 64\n",
        "command: [\"/bin/prog\", \"--parl-worker\", \"tcp://hello-learner:8037\", \"--slots\", \"1\"]",
        "command: [\"/bin/prog\", \"--steps\", \"$$5\"]", "value: \"tcp://0.0.0.0:8037\"", "kind: Service",
        "secretName: hello-token", "cpu: 3\n", "memory: 100Mi", "readinessProbe:",
        "kubectl create secret generic "
        "hello-token --from-file=token="}) {
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\nin\n" << text;
  }
  EXPECT_EQ(text.find(token_), std::string::npos);
}

TEST_F(K8sLauncherTest, WorkersComeFirstThenTheLearnerAndEverythingIsDeletedAfterIt) {
  install_kubectl();
  SubmitProcess submit(k8s_options(), folder_);
  ASSERT_TRUE(eventually([this] { return created().find("kind: Job") != std::string::npos; })) << submit.err();
  EXPECT_NE(created().find("token: \"" + token_ + "\""), std::string::npos) << "the Secret reaches kubectl by stdin";
  EXPECT_EQ(
      created().find(
          "name: hello-learner\n  labels:\n    parl-run: \"hello\"\n    parl-role: learner\nspec:\n  completions"),
      std::string::npos)
      << "no learner yet";
  if (can_validate()) expect_valid(created());
  set_pods(
      "Pod worker 0 Pending <none> ImagePullBackOff node-a hello-worker-0-x Initialized\n"
      "Pod worker 1 Running <none> <none> node-b hello-worker-1-x Ready,Initialized\n");
  EXPECT_TRUE(submit.says("worker 0 pending: ImagePullBackOff")) << submit.err();
  EXPECT_TRUE(submit.says("1 running (1), 1 pending (0)")) << submit.err();
  set_pods(
      "Pod worker 0 Running <none> <none> node-a hello-worker-0-x Ready\n"
      "Pod worker 1 Failed 9 <none> node-b hello-worker-1-x Ready\n"
      "Pod worker 1 Running <none> <none> node-c hello-worker-1-y Ready\n"
      "Job worker <none> <none> <none> <none> <none> hello-worker <none>\n");
  EXPECT_TRUE(submit.says("its pod failed with code 9")) << submit.err();
  EXPECT_TRUE(submit.says("[worker 1 node-c] line of hello-worker-1-y")) << submit.err();
  EXPECT_TRUE(eventually([this] { return created().find("completions: 1\n") != std::string::npos; })) << submit.err();
  set_pods(
      "Pod worker 0 Running <none> <none> node-a hello-worker-0-x Ready\n"
      "Pod worker 1 Running <none> <none> node-c hello-worker-1-y Ready\n"
      "Pod learner <none> Failed 5 <none> node-a hello-learner-x Ready\n");
  EXPECT_EQ(submit.wait(), 5) << submit.err();
  EXPECT_NE(submit.out().find("line of hello-learner-x"), std::string::npos) << submit.out();
  EXPECT_NE(calls().find("delete job,service,secret --selector=parl-run=hello"), std::string::npos) << calls();
  EXPECT_EQ(calls().find(token_), std::string::npos);
  EXPECT_EQ(submit.err().find(token_), std::string::npos);
}

TEST_F(K8sLauncherTest, AnInterruptDeletesTheLearnerFirst) {
  install_kubectl();
  set_pods(
      "Pod worker 0 Running <none> <none> a hello-worker-0-x Ready\n"
      "Pod worker 1 Running <none> <none> a hello-worker-1-x Ready\n"
      "Pod learner <none> Running <none> <none> a hello-learner-x Ready\n");
  SubmitProcess submit(k8s_options(), folder_);
  ASSERT_TRUE(submit.says("line of hello-learner-x")) << submit.err();
  submit.signal(SIGTERM);
  ASSERT_TRUE(eventually([this] { return calls().find("delete job hello-learner") != std::string::npos; })) << calls();
  set_pods("Pod worker 0 Running <none> <none> a hello-worker-0-x Ready\n");
  EXPECT_EQ(submit.wait(), 143) << submit.err();
  EXPECT_NE(calls().find("delete job,service,secret"), std::string::npos) << calls();
}

TEST_F(K8sLauncherTest, WithoutKubectlThePackageIsNamed) {
  ::setenv("PATH", folder_.c_str(), 1);
  SubmitProcess submit(k8s_options(), folder_);
  EXPECT_EQ(submit.wait(), 1);
  EXPECT_NE(submit.err().find("apt-get install kubernetes-client"), std::string::npos) << submit.err();
}

}  // namespace
}  // namespace parl::submit
