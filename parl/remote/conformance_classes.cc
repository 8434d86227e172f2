#include "parl/remote/conformance_classes.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "parl/core/check.h"
#include "parl/remote/remote.h"

namespace parl::conformance {

Gate::Gate() {
  static std::atomic<int> next{0};
  path_ = (std::filesystem::temp_directory_path() /
           ("parl_gate_" + std::to_string(getpid()) + "_" + std::to_string(next++)))
              .string();
}

Gate::~Gate() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void Gate::open(const std::string& path) { std::ofstream file(path); }
bool Gate::is_open(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

bool Gate::wait(const std::string& path) {
  for (int i = 0; i < 20000; ++i) {
    if (is_open(path)) return true;
    if (parl::stop_requested()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

int64_t Counter::here() { return syscall(SYS_gettid); }
int64_t Counter::thread() const { return here(); }
int64_t Counter::process() const { return getpid(); }

Array Values::matrix() const {
  Array a = Array::of<double>({3, 3});
  std::iota(a.span<double>().begin(), a.span<double>().end(), 0.5);
  return a;
}

double Values::sum_kept() const {
  const auto all = kept_.span<double>();
  return std::accumulate(all.begin(), all.end(), 0.0);
}

double Values::versioned_sum(const Versioned<Array>& v) const {
  const auto all = v->span<double>();
  return std::accumulate(all.begin(), all.end(), 0.0);
}

Trouble::Trouble(const std::string& constructor_error, const std::string& destructor_gate)
    : destructor_gate_(destructor_gate) {
  if (constructor_error == "sleep") {
    for (int i = 0; i < 2000 && !parl::stop_requested(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } else if (!constructor_error.empty()) {
    throw std::runtime_error(constructor_error);
  }
}

Trouble::~Trouble() noexcept(false) {
  if (!destructor_gate_.empty()) Gate::open(destructor_gate_);
  if (throws_in_destructor_) throw std::runtime_error("from the destructor");
}

void Trouble::throw_runtime(const std::string& what) { throw std::runtime_error(what); }
void Trouble::throw_error(const std::string& what) { throw parl::Error(what); }
void Trouble::exit_process(int status) {
  std::cerr << "last words before exit" << std::endl;
  std::exit(status);
}

void Trouble::raise_signal(int number) {
  std::cerr << "last words before a signal" << std::endl;
  std::raise(number);
}

bool Trouble::hold(const std::string& arrived, const std::string& go) {
  Gate::open(arrived);
  return Gate::wait(go);
}

void Trouble::sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

void Trouble::hold_deaf(const std::string& arrived, const std::string& go) {
  Gate::open(arrived);
  while (!Gate::is_open(go)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Trouble::print(const std::string& line) { std::cout << line << "\n"; }

std::string Trouble::environment(const std::string& name) const {
  const char* value = std::getenv(name.c_str());
  return value ? value : "(unset)";
}

std::string Trouble::create_inside() {
  RemoteManager manager("thread");
  try {
    manager.create<Counter>();
  } catch (const RemoteError& error) {
    return error.what();
  }
  return "it was created";
}

}  // namespace parl::conformance
