// The call's state machine and the tables of a class, without an engine.
#include "parl/remote/internal/call.h"

#include <gtest/gtest.h>

#include <thread>

#include "parl/remote/conformance_classes.h"
#include "parl/remote/internal/typed_call.h"
#include "parl/remote/remote.h"

namespace parl::internal {
namespace {

using conformance::Counter;
using conformance::Values;
using SumCall = MethodCall<Counter, Description<Counter>::Method_sum>;

// Carries a call over the wire as an engine would.
ReceivedMessage carry(const Writer& w) {
  ReceivedMessage m;
  m.head.assign(w.head().begin(), w.head().end());
  for (const Attachment& a : w.attachments()) {
    m.attachments.push_back({ArrayBlock::allocate(a.bytes), a.bytes});
    std::memcpy(m.attachments.back().block.data(), a.data, a.bytes);
  }
  return m;
}

TEST(Call, RunsHere) {
  Counter counter;
  auto call = SumCall::make(2, 3);
  EXPECT_FALSE(call->ready());
  call->run(&counter);
  ASSERT_TRUE(call->wait_ready(kNoWait));
  call->settle();
  EXPECT_EQ(call->take(), 5);
}

TEST(Call, TravelsByTheClassTable) {
  Counter counter;
  auto call = SumCall::make(2, 3);
  const MethodInfo& method = class_info<Counter>().methods[call->method_index()];
  EXPECT_STREQ(method.name, "sum");
  EXPECT_EQ(method.signature, "(i4,i4)->i4");
  Writer arguments, result;
  call->encode(arguments);
  ReceivedMessage message = carry(arguments);
  Reader reader = message.reader();
  method.invoke_wire(&counter, reader, result);
  EXPECT_TRUE(call->complete(carry(result)));
  call->settle();
  EXPECT_EQ(call->take(), 5);
}

TEST(Call, GarbageIsSerializeOnBothSides) {
  Counter counter;
  auto call = SumCall::make(2, 3);
  std::vector<std::byte> garbage(3);
  Reader reader(garbage);
  Writer result;
  EXPECT_THROW(call->method().invoke_wire(&counter, reader, result), CodingError);
  EXPECT_TRUE(call->complete(ReceivedMessage{garbage, {}}));
  try {
    call->settle();
    FAIL() << "it decoded";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.kind(), RemoteErrorKind::kSerialize);
  }
}

TEST(Call, OnlyTheFirstOutcomeCounts) {
  auto call = SumCall::make(2, 3);
  EXPECT_TRUE(call->fail(make_failure(RemoteErrorKind::kTimeout, "late")));
  EXPECT_FALSE(call->complete(ReceivedMessage{}));
  EXPECT_FALSE(call->fail(make_failure(RemoteErrorKind::kLost, "gone")));
  try {
    call->settle();
    FAIL() << "no error";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.kind(), RemoteErrorKind::kTimeout);
    EXPECT_EQ(error.method(), "sum");
  }
}

TEST(Call, ListenersRunOnceAlsoWhenLate) {
  auto call = SumCall::make(1, 1);
  int early = 0, removed = 0, late = 0;
  call->add_listener([&] { ++early; });
  call->remove_listener(call->add_listener([&] { ++removed; }));
  Counter counter;
  call->run(&counter);
  call->add_listener([&] { ++late; });
  EXPECT_EQ(early, 1);
  EXPECT_EQ(removed, 0);
  EXPECT_EQ(late, 1);
}

TEST(Call, WakesItsWaiter) {
  auto call = SumCall::make(1, 1);
  std::thread waiter([&] { EXPECT_TRUE(call->wait_ready(kForever)); });
  Counter counter;
  call->run(&counter);
  waiter.join();
  auto never = SumCall::make(1, 1);
  EXPECT_FALSE(never->wait_ready(deadline_in(std::chrono::milliseconds(5))));
}

TEST(Call, CountsArgumentBytes) {
  using Keep = MethodCall<Values, Description<Values>::Method_keep>;
  EXPECT_GE(Keep::make(Array::of<double>({1000}))->argument_bytes(), 8000u);
  EXPECT_LT(SumCall::make(1, 1)->argument_bytes(), 64u);
}

TEST(Call, DeadlinesDoNotOverflow) {
  EXPECT_EQ(deadline_in(std::chrono::nanoseconds::max()), kForever);
  const TimePoint past = deadline_in(std::chrono::seconds(-5));
  EXPECT_LE(past, std::chrono::steady_clock::now());
}

}  // namespace
}  // namespace parl::internal
