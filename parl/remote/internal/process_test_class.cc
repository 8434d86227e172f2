#include "parl/remote/internal/process_test_class.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "parl/remote/internal/spawn.h"

namespace parl::internal {
namespace {

struct Object {
  std::string how;
  ~Object() {
    if (how == "slow end") std::this_thread::sleep_for(std::chrono::seconds(60));
    if (how == "talks at the end") std::cout << "object destroyed" << std::endl;
  }
};

template <typename T>
T argument(Reader& reader) {
  return wire::load<T>(reader);
}

// Keeps the result as long as the writer points at it.
template <typename T>
void result(Writer& writer, T value) {
  auto kept = std::make_shared<T>(std::move(value));
  wire::save(writer, *kept);
  writer.keep(kept);
}

void add(void*, Reader& r, Writer& w) {
  const int a = argument<int>(r), b = argument<int>(r);
  result(w, a + b);
}
void echo(void*, Reader& r, Writer& w) { result(w, argument<std::string>(r)); }
void sleep_ms(void*, Reader& r, Writer& w) {
  const int ms = argument<int>(r);
  if (ms >= 1000) std::cout << "sleeping" << std::endl;
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  result(w, ms);
}
void throw_it(void*, Reader& r, Writer&) { throw std::domain_error(argument<std::string>(r)); }
void kill_it(void*, Reader& r, Writer&) {
  std::cerr << "about to die" << std::endl;
  ::raise(argument<int>(r));
}
void exit_it(void*, Reader& r, Writer&) { std::_Exit(argument<int>(r)); }
void make_array(void*, Reader& r, Writer& w) {
  Array array = Array::empty(DType::kF32, {argument<int64_t>(r)});
  std::iota(array.data<float>(), array.data<float>() + array.size(), 0.f);
  result(w, std::move(array));
}
void sum_array(void*, Reader& r, Writer& w) {
  const auto array = argument<Array>(r);
  const auto values = array.span<float>();
  result(w, std::accumulate(values.begin(), values.end(), 0.0));
}
void bounce(void*, Reader& r, Writer& w) {
  auto array = argument<Array>(r);
  for (float& x : array.span<float>()) x += 1;
  result(w, std::move(array));
}
void poll_stop(void*, Reader& r, Writer& w) {
  int polls = 0;
  std::cout << "polling" << std::endl;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(argument<int>(r));
  while (!stop_requested() && std::chrono::steady_clock::now() < end) {
    ++polls;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::cout << (stop_requested() ? "stopped early" : "ran to the end") << std::endl;
  result(w, polls);
}
void print(void*, Reader& r, Writer& w) {
  const auto text = argument<std::string>(r);
  std::cout << text << std::endl;
  result(w, static_cast<int>(text.size()));
}
void environment(void*, Reader& r, Writer& w) {
  const char* value = std::getenv(argument<std::string>(r).c_str());
  result(w, std::string(value ? value : "(unset)"));
}

void take_array(void*, Reader& r, Writer& w) { result(w, static_cast<int>(argument<Array>(r).size())); }
void give_array(void*, Reader& r, Writer& w) { result(w, Array::empty(DType::kF32, {argument<int64_t>(r)})); }
void take_text(void*, Reader& r, Writer& w) { result(w, static_cast<int>(argument<std::string>(r).size())); }

void garbage(void*, Reader& r, Writer& w) {
  const auto noise = argument<std::string>(r);
  result(w, static_cast<int>(::write(kWorkerSocket, noise.data(), noise.size())));
}
// A child that holds the connection open.
void spawn_child(void*, Reader&, Writer& w) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::usleep(5000 * 1000);
    ::_exit(0);
  }
  result(w, static_cast<int>(child));
}

void skip(Reader&) {}

void* construct(Reader& reader) {
  const auto how = argument<std::string>(reader);
  if (how == "throw") throw std::domain_error("no such probe");
  if (how == "exit") {
    std::cerr << "cannot go on" << std::endl;
    std::_Exit(9);
  }
  if (how == "hang") std::this_thread::sleep_for(std::chrono::seconds(60));
  if (how == "deaf") ::signal(SIGTERM, SIG_IGN);
  return new Object{how};
}

std::string constructor_signature() { return "(s)"; }

}  // namespace

const ClassInfo& probe_info() {
  static const ClassInfo info{"ProcessProbe",
                              "parl::internal::Probe",
                              "process_test_class.cc",
                              {{"add", "(i4,i4)->i4", add, skip},
                               {"echo", "(s)->s", echo, skip},
                               {"sleep", "(i4)->i4", sleep_ms, skip},
                               {"throw_it", "(s)->i4", throw_it, skip},
                               {"kill", "(i4)->i4", kill_it, skip},
                               {"exit", "(i4)->i4", exit_it, skip},
                               {"make_array", "(i8)->a", make_array, skip},
                               {"sum_array", "(a)->f8", sum_array, skip},
                               {"bounce", "(a)->a", bounce, skip},
                               {"poll_stop", "(i4)->i4", poll_stop, skip},
                               {"print", "(s)->i4", print, skip},
                               {"environment", "(s)->s", environment, skip},
                               {"take_array", "(a)->i4", take_array, skip},
                               {"give_array", "(i8)->a", give_array, skip},
                               {"take_text", "(s)->i4", take_text, skip},
                               {"garbage", "(s)->i4", garbage, skip},
                               {"spawn_child", "()->i4", spawn_child, skip}},
                              [](void* object) { delete static_cast<Object*>(object); }};
  return info;
}

static const bool entered = enter_factory({probe_info, constructor_signature, construct});

void enter_probe() { (void)entered; }

const ConstructorInfo& ProbeConstructor::constructor() const {
  static const ConstructorInfo info{constructor_signature(), &internal::construct};
  return info;
}

ProbeEngine::ProbeEngine(Options options) {
  enter_probe();
  if (options.spares < 0) options.spares = 0;
  shared_->options = options;
  shared_->gpus = find_gpus(options.gpus);
  engine_ = make_process_engine(shared_);
}

ProbeEngine::~ProbeEngine() { engine_->shutdown(deadline_in(std::chrono::seconds(10))); }

CreateRequest ProbeEngine::request(const std::string& how, TimePoint deadline) {
  CreateRequest request;
  request.info = &probe_info();
  request.constructor = std::make_shared<ProbeConstructor>(how);
  request.placement.index = next_;
  request.placement.name = fmt::format("Probe#{}", next_++);
  request.placement.engine = "process";
  request.deadline = deadline;
  return request;
}

}  // namespace parl::internal
