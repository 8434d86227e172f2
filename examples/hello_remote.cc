// One modifier makes a class remote; where its objects live is an option: --parl-engine inline | thread | process
#include <iostream>
#include <string>

#include "parl/remote/remote.h"

class Greeter {  // an ordinary class
 public:
  explicit Greeter(std::string name) : name_(std::move(name)) {}
  std::string say_hello(const std::string& to) { return "hello " + to + ", I am " + name_; }
  int sum(int a, int b) { return a + b; }

 private:
  std::string name_;
};
PARL_REMOTE_CLASS(Greeter, say_hello, sum);  // the modifier

int main(int argc, char** argv) {
  parl::RemoteManager manager(argc, argv);  // where objects live: --parl-engine thread | process | inline
  auto greeter = manager.create<Greeter>("bob");
  int five = greeter->sum(2, 3);               // looks local: blocks for the value, like unique_ptr<Greeter>
  auto later = greeter.async()->sum(five, 3);  // Future<int>: the caller goes on
  std::cout << greeter->say_hello("you") << '\n';
  std::cout << five << ' ' << later.get() << '\n';
}
