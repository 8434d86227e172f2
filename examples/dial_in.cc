// PARL 1.1's verbs: a program that owns its object dials in, and the learner takes it. Two terminals, any order:
//   dial_in learner tcp://127.0.0.1:8037
//   dial_in actor tcp://127.0.0.1:8037
#include <iostream>
#include <string>

#include "parl/remote/remote.h"

class Greeter {
 public:
  explicit Greeter(std::string name) : name_(std::move(name)) {}
  std::string say_hello(const std::string& to) { return "hello " + to + ", I am " + name_; }

 private:
  std::string name_;
};
PARL_REMOTE_CLASS(Greeter, say_hello);

int main(int argc, char** argv) {
  parl::init(argc, argv);
  if (argc != 3) {
    std::cerr << "usage: dial_in learner|actor ADDRESS\n";
    return 2;
  }
  const std::string address = argv[2];
  if (std::string(argv[1]) == "actor") {
    parl::as_remote(Greeter("bob"), address);  // until the learner gives its handle back
    return 0;
  }
  parl::RemoteManager manager(address);
  auto greeter = manager.get_remote<Greeter>();
  std::cout << greeter->say_hello("you") << '\n';
}
