// Errors: what they carry, and that nothing dies of them. The table of the suite is in conformance.h.
#include "parl/remote/conformance.h"

namespace parl::conformance {

PARL_CONFORMANCE(Errors, "inline", "thread", "process", "tcp");

TEST_P(Errors, ErrorCarriesContext) {  // P2, R13
  RemoteManager manager(options());
  auto trouble = manager.create<Trouble>();
  const auto error = expect_remote_error(RemoteErrorKind::kThrew, [&] { trouble->throw_runtime("boom"); });
  EXPECT_EQ(error.message(), "boom");
  EXPECT_EQ(error.type(), "std::runtime_error");
  EXPECT_EQ(error.class_name(), "Trouble");
  EXPECT_EQ(error.method(), "throw_runtime");
  EXPECT_EQ(error.object(), "Trouble#0");
  EXPECT_EQ(error.path(), std::vector<std::string>{"Trouble#0.throw_runtime"});
  EXPECT_EQ(error.pid(), trouble.pid());
  EXPECT_FALSE(error.host().empty());
  for (const char* part : {"boom", "std::runtime_error", "Trouble#0.throw_runtime"}) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part;
  }
  const auto own = expect_remote_error(RemoteErrorKind::kThrew, [&] { trouble->throw_error("told"); });
  EXPECT_EQ(own.type(), "parl::Error");
  EXPECT_FALSE(own.stack().empty());
  EXPECT_NE(std::string(own.what()).find(own.stack()), std::string::npos);
}

TEST_P(Errors, ObjectLivesOnAfterError) {  // P2, 1, C2
  RemoteManager manager(options_with_slots(1));
  auto trouble = manager.create<Trouble>();
  for (int i = 0; i < 3; ++i) {
    expect_remote_error(RemoteErrorKind::kThrew, [&] { trouble->throw_runtime("again"); });
    EXPECT_EQ(trouble->fine(), 1);
  }
  EXPECT_EQ(manager.stats().errors, 3u);
}

TEST_P(Errors, UnknownException) {
  RemoteManager manager(options());
  auto trouble = manager.create<Trouble>();
  const auto error = expect_remote_error(RemoteErrorKind::kThrew, [&] { trouble->throw_int(); });
  EXPECT_EQ(error.message(), "unknown exception");
  EXPECT_EQ(error.type(), "int");
  EXPECT_EQ(trouble->fine(), 1);
}

TEST_P(Errors, ErrorStaysWithItsObject) {  // R8
  RemoteManager manager(options());
  auto a = manager.create<Trouble>();
  auto b = manager.create<Trouble>();
  expect_remote_error(RemoteErrorKind::kThrew, [&] { a->throw_runtime("a"); });
  EXPECT_EQ(b->fine(), 1);
}

TEST_P(Errors, ConstructorErrorFreesItsSlot) {  // C1
  RemoteManager manager(options_with_slots(1));
  for (int i = 0; i < 3; ++i) {
    const auto error = expect_remote_error(RemoteErrorKind::kThrew,
                                           [&] { manager.create<Trouble>(Place{.timeout = 10s}, "no luck"); });
    EXPECT_EQ(error.message(), "no luck");
    EXPECT_EQ(error.type(), "std::runtime_error");
    EXPECT_EQ(error.class_name(), "Trouble");
  }
  auto trouble = manager.create<Trouble>(Place{.timeout = 10s});
  EXPECT_EQ(trouble->fine(), 1);
}

TEST_P(Errors, DestructorErrorIsNotFatal) {
  RemoteManager manager(options_with_slots(1));
  {
    auto trouble = manager.create<Trouble>();
    trouble->throw_in_destructor();
    EXPECT_TRUE(trouble.close(10s));
  }
  EXPECT_EQ(manager.create<Trouble>(Place{.timeout = 10s})->fine(), 1);
}

TEST_P(Errors, NestedCreateIsRefused) {  // P12
  RemoteManager manager(options());
  auto trouble = manager.create<Trouble>();
  EXPECT_NE(trouble->create_inside().find("inside a remote object"), std::string::npos) << trouble->create_inside();
}

TEST_P(Errors, UnknownEngineAndBadOptions) {
  try {
    RemoteManager manager("thraed");
    FAIL() << "it was made";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean 'thread'"), std::string::npos) << e.what();
  }
}

TEST_P(Errors, AnArgumentThatDoesNotDecodeIsSerialize) {
  if (!is_elsewhere()) GTEST_SKIP() << "nothing is decoded";
  RemoteManager manager(options());
  auto values = manager.create<Values>();
  Array liar = Array::of<uint8_t>({4});
  liar = Array::adopt(DType::kBool, {4}, [] {
    ArrayBlock block = ArrayBlock::from_malloc(4);
    std::fill_n(block.data(), 4, std::byte{7});  // not a bool
    return block;
  }());
  expect_remote_error(RemoteErrorKind::kSerialize, [&] { values->echo_array(liar); });
  EXPECT_EQ(values->integer(), -7);  // the connection lives on
}

// ---- a call that would wait for itself: only objects in one process can know each other ----

class Ring {
 public:
  int fine() { return 1; }
  int call_self();
  int call_other();
  int back();
  int call_self_async();
};
PARL_REMOTE_CLASS(Ring, fine, call_self, call_other, back, call_self_async);

Remote<Ring>* ring_a = nullptr;
Remote<Ring>* ring_b = nullptr;

int Ring::call_self() { return (*ring_a)->fine(); }
int Ring::call_other() { return (*ring_b)->back(); }
int Ring::back() { return (*ring_a)->fine(); }
int Ring::call_self_async() {
  (*ring_a).async()->fine();  // runs after this one: no harm
  return 2;
}

TEST_P(Errors, CallThatWouldWaitForItself) {  // P12
  if (is_elsewhere()) GTEST_SKIP() << "an object in a process of its own holds no handles";
  RemoteManager manager(options());
  auto a = manager.create<Ring>(Place{.name = "a"});
  auto b = manager.create<Ring>(Place{.name = "b"});
  ring_a = &a;
  ring_b = &b;
  const auto self = expect_remote_error(RemoteErrorKind::kThrew, [&] { a->call_self(); });
  EXPECT_NE(self.message().find("a.call_self -> a.fine"), std::string::npos) << self.what();
  EXPECT_EQ(self.type(), "parl::RemoteError");
  const auto chain = expect_remote_error(RemoteErrorKind::kThrew, [&] { a->call_other(); });
  EXPECT_NE(chain.message().find("a.call_other -> b.back -> a.fine"), std::string::npos) << chain.what();
  EXPECT_EQ(chain.path(), (std::vector<std::string>{"a.call_other", "b.back"}));
  EXPECT_EQ(a->call_self_async(), 2);
  EXPECT_EQ(a->fine(), 1);
  EXPECT_EQ(b->back(), 1);  // from outside it is a plain chain
}

}  // namespace parl::conformance
