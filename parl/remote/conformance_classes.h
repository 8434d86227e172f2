// The classes of the conformance suite: what a user might write.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parl/remote/modifier.h"
#include "parl/remote/place.h"
#include "parl/wire/versioned.h"

namespace parl::conformance {

// A flag that works across threads and processes: a file. Tests use it to hold a method at a known place.
class Gate {
 public:
  Gate();  // a fresh path; closed
  ~Gate();
  Gate(const Gate&) = delete;
  const std::string& path() const { return path_; }
  void open() const { open(path_); }
  bool is_open() const { return is_open(path_); }
  static void open(const std::string& path);
  static bool is_open(const std::string& path);
  // True when opened; false: stop_requested() came first, or 20 s passed.
  static bool wait(const std::string& path);

 private:
  std::string path_;
};

struct Item {
  int32_t number = 0;
  std::vector<std::string> words;
  bool operator==(const Item&) const = default;
};
PARL_FIELDS(Item, number, words);

class Counter {
 public:
  explicit Counter(int start = 0) : value_(start) {}
  int get() const { return value_; }
  void set(int value) { value_ = value; }
  int add_one(int x) { return x + 1; }
  int increment() { return ++value_; }
  int sum(int a, int b) const { return a + b; }
  void append(int x) { log_.push_back(x); }
  std::vector<int> log() const { return log_; }
  int64_t thread() const;  // of the call; the constructor's must be the same
  int64_t birth_thread() const { return birth_thread_; }
  int64_t process() const;

 private:
  int value_;
  std::vector<int> log_;
  int64_t birth_thread_ = here();
  static int64_t here();
};
PARL_REMOTE_CLASS(Counter, get, set, add_one, increment, sum, append, log, thread, birth_thread, process);

class Values {
 public:
  int integer() const { return -7; }
  float real() const { return 0.1f; }
  Array matrix() const;
  Array echo_array(Array a) { return a; }
  std::vector<float> echo_vector(std::vector<float> v) { return v; }
  double echo_double(double x) { return x; }
  Item echo_item(const Item& item) { return item; }
  std::map<std::string, std::optional<Item>> echo_map(std::map<std::string, std::optional<Item>> m) { return m; }
  std::unique_ptr<Item> echo_pointer(std::unique_ptr<Item> p) { return p; }
  void keep(Array a) { kept_ = std::move(a); }
  void keep_vector(const std::vector<float>& v) { kept_vector_ = v; }
  const Array& kept() const { return kept_; }
  void poke(double value) { kept_.data<double>()[0] = value; }
  double sum_kept() const;
  double first_kept() const { return kept_.size() ? kept_.data<double>()[0] : -1; }
  const std::vector<float>& kept_vector() const { return kept_vector_; }
  int64_t version_of(const Versioned<Array>& v) const { return v.version(); }
  double versioned_sum(const Versioned<Array>& v) const;
  int64_t bytes_of(const Array& a) const { return static_cast<int64_t>(a.bytes()); }

 private:
  Array kept_;
  std::vector<float> kept_vector_;
};
PARL_REMOTE_CLASS(Values, integer, real, matrix, echo_array, echo_vector, echo_double, echo_item, echo_map,
                  echo_pointer, keep, keep_vector, kept, poke, sum_kept, first_kept, kept_vector, version_of,
                  versioned_sum, bytes_of);

// Keeps what it was given.
class VersionKeeper {
 public:
  explicit VersionKeeper(Versioned<std::string> value = {}) : value_(std::move(value)) {}
  void keep(Versioned<std::string> value) { value_ = std::move(value); }
  std::string text() const { return std::to_string(value_.version()) + ": " + *value_; }

 private:
  Versioned<std::string> value_;
};
PARL_REMOTE_CLASS(VersionKeeper, keep, text);

// Throws in every way, and holds still at gates.
class Trouble {
 public:
  // "": fine; else throws this.
  explicit Trouble(const std::string& constructor_error = "", const std::string& destructor_gate = "");
  ~Trouble() noexcept(false);
  void throw_runtime(const std::string& what);
  void throw_error(const std::string& what);
  void throw_int() { throw 42; }
  void exit_process(int status);
  void raise_signal(int number);
  int fine() { return 1; }
  void throw_in_destructor() { throws_in_destructor_ = true; }
  // Opens `arrived`, waits for `go` (or a stop request), then returns whether it was the gate.
  bool hold(const std::string& arrived, const std::string& go);
  void sleep_ms(int ms);
  // Holds without looking at stop_requested().
  void hold_deaf(const std::string& arrived, const std::string& go);
  void print(const std::string& line);
  Placement where() const { return parl::placement(); }
  std::string environment(const std::string& name) const;
  std::string create_inside();

 private:
  std::string destructor_gate_;
  bool throws_in_destructor_ = false;
};
PARL_REMOTE_CLASS(Trouble, throw_runtime, throw_error, throw_int, exit_process, raise_signal, fine, throw_in_destructor,
                  hold, sleep_ms, hold_deaf, print, where, environment, create_inside);

}  // namespace parl::conformance
