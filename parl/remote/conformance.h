// The conformance suite: what every engine promises, run on every engine. To pass it is what makes an engine one.
//
// Numbers with a letter are the behaviours of the original system's own tests; plain numbers are those that it never
// tested; P1..P16 are the promises of this library ("What every engine promises" in docs/remote.md).
// itp = runs on inline, thread, process; n = tcp (network), which runs whatever process does unless it says p alone;
// nc = must not compile (must_not_compile_test.cc); - = cannot exist here.
// clang-format off
//
//   behaviour                                                              where  test
//   D1   a listed class works locally, unchanged                           itp    LocalUse
//   D2   missing getter, local call                                        nc
//   D3   missing setter, local call                                        nc
//   R1   getters see constructor values and what setters changed           itp    GettersAndSetters
//   R2   missing method                                                    nc
//   R3   missing method with arguments                                     nc
//   R4   wrong argument                                                    nc
//   R5   argument that cannot travel (a handle)                            nc
//   R6   result that cannot travel (self)                                  nc
//   R7   several objects, each its own, in order                           itp    ManyObjects; dialled in: internal/tcp_engine_test.cc
//   R8   an error in one object leaves the others alone                    itp    ErrorStaysWithItsObject
//   R11  a class with a lock cannot travel; user classes do                nc itp UserClassesTravel
//   R12  ten threads, ten objects, 1,000 dependent calls each              itp    TenThreadsTenObjects
//   R13  an error carries the far stack                                    itp    ErrorCarriesContext
//   C1   constructor throws; the only slot is free again                   itp    ConstructorErrorFreesItsSlot
//   C2   method throws; the same object goes on                            itp    ObjectLivesOnAfterError
//   C3   eight objects on eight slots                                      itp    ManyObjects
//   C4   ten one after another on four slots, then four at once            itp    SlotsAreReused
//   C5   a method that ends its process: error, no hang; a new one works   p      ExitInMethod (elsewhere it ends the program)
//   C6   the same with futures                                             p      ExitInMethod
//   C12  an object takes exactly one slot                                  itp    SlotsAreCounted
//   C13  a function cannot be listed                                       nc
//   C16-C18, C22  reserved names, attributes beside methods                -      a class lists methods; C++ looks names up
//   C19  getters give int, float and a 3x3 array exactly                   itp    ValuesAreExact
//   F1   each call gives a future at once      F2  get() once              itp    GetGivesTheValueOnce
//   F3-F5 not ready, then ready; a time-out keeps the future               tp     NotReadyThenReady
//   F6   error at get(); its slot can be used again                        itp    FutureCarriesTheError
//   F7   ten objects in turn on few slots                                  itp    SlotsAreReused
//   F8   getters through futures                                           itp    FutureGetters
//   1    a call after an exception works                                   itp    ObjectLivesOnAfterError
//   2    killed in mid-call: error within 1 s, the next create works       p      KilledInMidCall
//   4    a learner that stands still, a worker that does: nobody is lost   p      StoppedLearnerLosesNobody
//   5    garbage is refused                                                       wire/archive_test.cc, internal/frame_test.cc
//   7    call time-out, cancel, pipelining, wait_any                       tp     Within*, Cancel*, Pipelining, WaitAny*
//   8    a released slot is free within 50 ms                              itp    SlotIsFreeWithin50ms
//   12   deep copies, NaN, inf, empty, zero-dimensional                    itp    ValuesAreExact, OverwrittenArray
//        > 4 GiB, when PARL_TEST_HUGE is set                               itp    HugeArray
//   15   port in use                                                       n      internal/tcp_engine_test.cc
//   P1   order, one at a time; objects in parallel                         itp    OrderAndExclusion, ObjectsRunInParallel (tp)
//   P2   errors of every kind, and life after them                         itp    suite Errors
//   P3   values travel, memory is not shared                               itp    OverwrittenArray, CallerAndObjectShareNoMemory
//   P4   futures                                                           itp    suites Futures, Concurrent
//   P5   goodbye, close, the manager's end, sharing, fork                  itp    Goodbye*, ManagerEnds*, SharedHandle, ForkedChild
//   P6   back-pressure                                                     tp     BackPressure*
//   P7   a killed peer; the signal that killed it                         p, tcp KilledInMidCall, TheSignalThatKilledItIsNamed
//   P8   deadlines                                                         tp     Within*, CreateHasADeadline, ShutdownHasADeadline
//   P9   re-creation; workers end with their learner                       p      RestartByPolicy, WorkersDieWithTheirLearner
//   P10  slots; GPUs                                                       itp    SlotIsFreeWithin50ms, SlotsAreCounted, GpusAreHandedOutOnce
//   P11  broadcast, Versioned                                              itp    Broadcast, Versioned*, OneLoss* (p)
//   P12  handles stay; no nested create; no waiting for oneself            nc itp NestedCreateIsRefused, CallThatWouldWait* (it)
//   P13  several managers                                                  itp    ManagersSideBySide
//   P14  hygiene                                                           itp    NoLeaks, IdleManager, WorkerOutput (p), Interrupt* (p)
//   P15  token, limits before it, garbage                                  n      internal/tcp_engine_test.cc; sizes: wire/archive_test.cc
// clang-format on
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "parl/remote/conformance_classes.h"
#include "parl/remote/internal/tcp_test_worker.h"
#include "parl/remote/internal/test_environment.h"
#include "parl/remote/remote.h"

namespace parl::conformance {

using namespace std::chrono_literals;

class Conformance : public ::testing::TestWithParam<std::string> {
 protected:
  const std::string& engine() const { return GetParam(); }
  bool is_inline() const { return engine() == "inline"; }
  bool is_process() const { return engine() == "process"; }
  bool is_tcp() const { return engine() == "tcp"; }
  bool is_elsewhere() const { return is_process() || is_tcp(); }  // objects live in other processes
  // tcp: each call is a learner's address of its own, with workers that dial it until the test's end.
  Options options() const {
    Options o;
    o.engine = engine();
    if (!is_tcp()) return o;
    o.engine = internal::free_tcp_address();
    for (int i = 0; i < worker_count(); ++i)
      workers_.push_back(std::make_unique<internal::TestWorker>(o.engine, slots_per_worker()));
    return o;
  }
  Options options_with_slots(int slots) const {
    Options o = options();
    o.slots = slots;
    return o;
  }
  virtual int worker_count() const { return 1; }
  virtual int slots_per_worker() const { return 64; }

 private:
  mutable std::vector<std::unique_ptr<internal::TestWorker>> workers_;
};

inline std::string engine_name(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

#define PARL_CONFORMANCE(Suite, ...)   \
  class Suite : public Conformance {}; \
  INSTANTIATE_TEST_SUITE_P(Engines, Suite, ::testing::Values(__VA_ARGS__), engine_name)

// Runs `f`, which must throw a RemoteError of this kind; gives the error.
template <typename F>
RemoteError expect_remote_error(RemoteErrorKind kind, F&& f) {
  try {
    f();
  } catch (const RemoteError& error) {
    EXPECT_EQ(to_string(error.kind()), to_string(kind)) << error.what();
    return error;
  }
  ADD_FAILURE() << "no RemoteError was thrown; expected " << to_string(kind);
  return RemoteError(RemoteFailure{});
}

inline double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Polls until `f` is true; for at most `limit`.
template <typename F>
bool eventually(F&& f, std::chrono::milliseconds limit = 5s) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!f()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

}  // namespace parl::conformance
