// The conformance suite: what every engine promises, run on every engine. To pass it is what makes an engine one.
//
// Numbers with a letter are the behaviours of the original system's own tests; n.m are those that it never tested;
// P1..P16 are the promises of this library ("What every engine promises" in docs/remote.md).
// itp = runs on inline, thread, process; nc = must not compile (must_not_compile_test.cc); - = cannot exist here.
//
//   D1  itp  a listed class works locally, unchanged                    LocalUse
//   D2  nc   missing getter, local call        D3  nc  missing setter, local call
//   R1  itp  getters see constructor values and what setters changed    GettersAndSetters
//   R2  nc   missing method                    R3  nc  missing method with arguments
//   R4  nc   wrong argument                    R5  nc  argument that cannot travel (a handle)
//   R6  nc   result that cannot travel (self)  R11 nc  class with a lock; itp: user classes travel (UserClassesTravel)
//   R7  itp  several objects, each its own, in order (dial-in belongs to the network engine)     ManyObjects
//   R8  itp  an error in one object leaves the others alone             ErrorStaysWithItsObject
//   R12 itp  ten threads, ten objects, 1,000 dependent calls each       TenThreadsTenObjects
//   R13 itp  an error carries the far stack                             ErrorCarriesContext
//   C1  itp  constructor throws; the only slot is free again            ConstructorErrorFreesItsSlot
//   C2  itp  method throws; C2 of the original needs a new object, here the same one goes on ObjectLivesOnAfterError C3
//   itp  eight objects on eight slots      C4 itp  ten one after another on four slots       SlotsAreReused C5  p    a
//   method that ends its process: error, later calls too; a new object works          ExitInMethod C6  p    the same
//   with futures                                      ExitInMethod C12 itp  an object takes exactly one slot
//   SlotsAreCounted C13 nc   a function cannot be listed C16-C18, C22  -  reserved names and attributes beside methods
//   do not exist: a class lists methods, C++ looks them up C19 itp  getters give int, float and a 3x3 array exactly
//   ValuesAreExact F1-F5 itp futures: at once, get once, not ready, time-out keeps the future       Futures* F6  itp
//   error at get(); its slot can be used again                 FutureCarriesTheError F7  itp  ten objects in turn on
//   two slots                           SlotsAreReused F8  itp  getters through futures FutureGetters 1   itp  a call
//   after an exception works   2   p  killed in mid-call: error within 1 s, create works (KilledInMidCall) 4   p    a
//   learner that computes or is stopped for long loses nobody (StoppedLearnerLosesNobody) 5   itp  garbage:
//   wire/archive_test.cc (mutated messages), internal/frame_test.cc (frames) 7   itp  call time-out, cancel,
//   pipelining, wait_any                Within*, Cancel*, WaitAny* 8   itp  a released slot is free within 50 ms
//   SlotIsFreeWithin50ms 12  itp  deep copies, NaN, inf, empty, zero-dimensional; > 4 GiB when PARL_TEST_HUGE is set
//   ValuesAreExact, HugeArray 15  -    no port is opened by these engines (network engine) P1 OrderAndExclusion,
//   ObjectsRunInParallel (tp)     P2 Error*            P3 OverwrittenArray, ValuesAreExact P4 Futures*, WaitAny*,
//   FutureOutlivesTheHandle      P5 Goodbye*, ManagerEnds*, SharedHandle, ForkedChild P6 BackPressure*      P7
//   KilledInMidCall (p)        P8 Within*, CreateHasADeadline, StuckObjectIsLeftAlone (t) P9 Restart* (p)       P10
//   SlotIsFreeWithin50ms, SlotsAreCounted          P11 Broadcast*, Versioned* P12 nc + NestedCreateIsRefused,
//   CallThatWouldWaitForItself (it)          P13 ManagersSideBySide P14 NoLeaks, IdleManager,
//   WorkersDieWithTheirLearner (p), WorkerOutput (p) P15, P16: loopback, TLS, 1,000 workers: network engine; sizes
//   checked first: wire/archive_test.cc
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "parl/remote/conformance_classes.h"
#include "parl/remote/remote.h"

namespace parl::conformance {

using namespace std::chrono_literals;

class Conformance : public ::testing::TestWithParam<std::string> {
 protected:
  const std::string& engine() const { return GetParam(); }
  bool is_inline() const { return engine() == "inline"; }
  bool is_process() const { return engine() == "process"; }
  Options options() const {
    Options o;
    o.engine = engine();
    return o;
  }
  Options options_with_slots(int slots) const {
    Options o = options();
    o.slots = slots;
    return o;
  }
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
