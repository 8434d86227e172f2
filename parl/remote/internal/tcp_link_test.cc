// The two ends of an object's link at the learner, at the moments when something else happens at the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "parl/remote/conformance.h"
#include "parl/remote/internal/context.h"
#include "parl/remote/internal/hosted_object.h"
#include "parl/remote/internal/tcp_peer.h"
#include "parl/remote/internal/wire_channel.h"

namespace parl::internal {
namespace {

using conformance::Counter;
using conformance::expect_remote_error;
using ::testing::ElementsAre;

struct Ends final : ObjectLink::Listener {
  void on_frame(Frame) override {}
  void on_end() override {
    ++count;
    if (at_end) at_end();
  }
  int count = 0;
  std::function<void()> at_end;
};

TEST(TcpLink, WhoAttachesWhileTheConnectionEndsIsTold) {
  TcpObjectLink link(nullptr, 1, {});
  const auto first = std::make_shared<Ends>(), second = std::make_shared<Ends>(), third = std::make_shared<Ends>();
  first->at_end = [&] { link.attach(second); };
  link.attach(first);
  link.on_end("is gone");
  EXPECT_EQ(first->count, 1);
  EXPECT_EQ(second->count, 1);
  link.attach(third);
  EXPECT_EQ(third->count, 1);
}

struct Silent final : Connection::Listener {
  void on_open(const std::shared_ptr<Connection>&) override {}
  void on_frame(uint32_t, Frame) override {}
  void on_end(const std::string&) override { ended.set_value(); }
  std::promise<void> ended;
};

Frame frame_of(FrameKind kind, const Writer& writer) {
  Frame frame;
  frame.kind = static_cast<uint8_t>(kind);
  frame.head.assign(writer.head().begin(), writer.head().end());
  return frame;
}

TEST(HostedObject, LeavesItsThread) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  const UniqueFd other(fds[1]);
  IoLoop loop;
  const auto listener = std::make_shared<Silent>();
  const auto connection = Connection::start(loop, make_plain_transport(UniqueFd(fds[0])), listener);
  {
    HostedObject object(connection, 1, nullptr, nullptr);
    Counter counter(1);
    Writer writer;
    wire::save(writer, CreateHead{"Counter", fingerprint(class_info<Counter>()), "", Placement(), 0});
    object.deliver(frame_of(FrameKind::kTake, writer));
    object.deliver(frame_of(FrameKind::kGoodbye, Writer()));
    EXPECT_EQ(object.serve(class_info<Counter>(), &counter), HostedObject::End::kGoodbye);
    EXPECT_EQ(ObjectThread::current(), nullptr) << "while the object's shell still lives";
  }
  connection->end("the test is over");
  listener->ended.get_future().wait();
}

struct NotingLink final : ObjectLink {
  using ObjectLink::send;
  std::vector<AttachmentPlace> send(FrameKind kind, uint64_t, const Writer&, bool, const Keep&) override {
    sent.push_back(kind);
    return {};
  }
  void give_up() override {}
  void cut() override { ++cuts; }
  void expect_end() override {}
  bool wait_ended(TimePoint) override { return true; }
  std::string end_text() const override { return "is gone"; }
  int64_t pid() const override { return 1; }
  const std::string& host() const override { return this_host(); }
  std::vector<FrameKind> sent;
  int cuts = 0;
};

struct Building {
  Building() {
    request.info = &class_info<Counter>();
    request.constructor = make_constructor_call<Counter>(1);
    request.placement.name = "Counter#0";
    shared->options.max_calls = 1;
  }
  CreateRequest request;
  std::shared_ptr<ManagerShared> shared = std::make_shared<ManagerShared>();
  std::shared_ptr<NotingLink> link = std::make_shared<NotingLink>();
};

TEST(WireChannel, AStopThatComesBeforeTheConstructorsCallIsSaidAgain) {
  Building b;
  const auto channel = std::make_shared<WireChannel>(b.request, b.shared, b.link);
  channel->stop();
  expect_remote_error(RemoteErrorKind::kClosed, [&] { channel->build(b.request); });
  EXPECT_THAT(b.link->sent, ElementsAre(FrameKind::kStop, FrameKind::kCreate, FrameKind::kStop));
}

}  // namespace
}  // namespace parl::internal
