// Remote objects and environments from an installed parl, without torch.
#include <iostream>
#include <string>
#include <utility>

#include "parl/env/registry.h"
#include "parl/remote/remote.h"

class Counter {
 public:
  int add(int n) { return total_ += n; }

 private:
  int total_ = 0;
};
PARL_REMOTE_CLASS(Counter, add);

int main(int argc, char** argv) {
  parl::RemoteManager manager(argc, argv);
  auto counter = manager.create<Counter>();
  counter->add(40);
  parl::EnvRegistry envs;
  parl::register_builtin_envs(envs);
  const auto env = envs.make({.id = "CartPole-v1"});
  std::cout << "consumer " << counter->add(2) << " " << env->spec().id << "\n";
}
