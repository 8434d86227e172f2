#include "parl/remote/internal/mux.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace parl::internal {
namespace {

using Got = MuxReader::Got;
using Sent = MuxSender::Sent;

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    a = make_plain_transport(UniqueFd(fds[0]));
    b = make_plain_transport(UniqueFd(fds[1]));
  }
  void write_raw(const void* data, size_t bytes) {
    ASSERT_EQ(::send(a->fd(), data, bytes, 0), static_cast<ssize_t>(bytes));
  }
  std::unique_ptr<Transport> a, b;
};

std::vector<std::byte> random_bytes(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> out(n);
  for (auto& x : out) x = static_cast<std::byte>(random());
  return out;
}

struct Message {
  explicit Message(size_t head_bytes, size_t body_bytes = 0, unsigned seed = 1)
      : head(random_bytes(head_bytes, seed)), body(random_bytes(body_bytes, seed + 1)) {}
  OutgoingFrame frame(uint64_t id) const {
    OutgoingFrame f;
    f.prefix.kind = 9;
    f.prefix.id = id;
    f.prefix.head = head.size();
    f.head = head;
    if (!body.empty()) {
      f.prefix.attachments = 1;
      f.places.push_back({body.size(), 0, 0, AttachmentPlace::kInStream});
      f.bodies.emplace_back(body);
    }
    return f;
  }
  void expect_equal(const Frame& f) const {
    EXPECT_TRUE(std::equal(f.head.begin(), f.head.end(), head.begin(), head.end()));
    ASSERT_EQ(f.attachments.size(), body.empty() ? 0u : 1u);
    if (body.empty()) return;
    ASSERT_EQ(f.attachments[0].bytes, body.size());
    EXPECT_TRUE(std::equal(body.begin(), body.end(), f.attachments[0].block.data()));
  }
  std::vector<std::byte> head, body;
};

// The next frame, while the sender goes on.
Got next(Pair& p, MuxSender& sender, MuxReader& reader, uint32_t& object, Frame& frame) {
  for (;;) {
    const Got got = reader.next(*p.b, object, frame);
    if (got == Got::kFrame || got == Got::kClosed) return got;
    if (got == Got::kNothing && !sender.pending()) return got;
    EXPECT_NE(sender.flush(*p.a), Sent::kClosed);
  }
}

TEST(Mux, SmallFramesOfManyObjects) {
  Pair p;
  MuxSender sender;
  MuxReader reader({}, 100);
  for (uint32_t i = 0; i < 50; ++i) EXPECT_EQ(sender.send(*p.a, i, Message(i, 0, i).frame(i)), Sent::kAll);
  for (uint32_t i = 0; i < 50; ++i) {
    uint32_t object = 99;
    Frame frame;
    ASSERT_EQ(reader.next(*p.b, object, frame), Got::kFrame);
    EXPECT_EQ(object, i);
    EXPECT_EQ(frame.id, i);
    Message(i, 0, i).expect_equal(frame);
  }
  uint32_t object = 0;
  Frame frame;
  EXPECT_EQ(reader.next(*p.b, object, frame), Got::kNothing);
  EXPECT_FALSE(reader.mid_frame());
}

TEST(Mux, ALargeFrameLetsSmallOnesOfOthersPass) {
  Pair p;
  MuxSender sender;
  MuxReader reader({}, 100);
  const Message large(100, 20u << 20), small(10);
  {
    const Message copy(100, 20u << 20);  // not kept: the sender copies what it cannot send
    EXPECT_EQ(sender.send(*p.a, 1, copy.frame(1)), Sent::kPending);
  }
  EXPECT_EQ(sender.send(*p.a, 2, small.frame(2)), Sent::kPending);
  EXPECT_EQ(sender.send(*p.a, 1, small.frame(3)), Sent::kPending) << "order within an object is kept";
  EXPECT_GT(sender.queued_bytes(), 16u << 20);
  EXPECT_GT(sender.queued_bytes(1), 16u << 20);
  EXPECT_EQ(sender.queued_bytes(2), small.frame(2).bytes()) << "what others queue counts";
  EXPECT_EQ(sender.queued_bytes(3), 0u);
  uint32_t object = 0;
  Frame frame;
  ASSERT_EQ(next(p, sender, reader, object, frame), Got::kFrame);
  EXPECT_EQ(object, 2u);
  EXPECT_LT(reader.bytes_received(), 4u << 20) << "the small one waited for the large one";
  ASSERT_EQ(next(p, sender, reader, object, frame), Got::kFrame);
  EXPECT_EQ(object, 1u);
  EXPECT_EQ(frame.id, 1u);
  large.expect_equal(frame);
  ASSERT_EQ(next(p, sender, reader, object, frame), Got::kFrame);
  EXPECT_EQ(frame.id, 3u);
  EXPECT_EQ(sender.queued_bytes(), 0u);
  EXPECT_EQ(sender.queued_bytes(1), 0u);
}

TEST(Mux, FramesOfEverySizeInEveryMixture) {
  Pair p;
  MuxSender sender;
  MuxReader reader({}, 100);
  std::mt19937 random(7);
  std::map<uint32_t, std::deque<std::pair<uint64_t, Message>>> expected;
  const size_t sizes[] = {0, 1, 4000, 70000, kMaxChunk - 32, kMaxChunk, kMaxChunk + 1, 3 * kMaxChunk, 1u << 20};
  int left = 0;
  for (int i = 0; i < 200; ++i) {
    const uint32_t object = random() % 5;
    Message message(random() % 300, sizes[random() % std::size(sizes)], static_cast<unsigned>(i));
    ASSERT_NE(sender.send(*p.a, object, message.frame(static_cast<uint64_t>(i))), Sent::kClosed);
    expected[object].emplace_back(static_cast<uint64_t>(i), std::move(message));
    ++left;
  }
  for (; left > 0; --left) {
    uint32_t object = 0;
    Frame frame;
    ASSERT_EQ(next(p, sender, reader, object, frame), Got::kFrame);
    ASSERT_FALSE(expected[object].empty());
    EXPECT_EQ(frame.id, expected[object].front().first);
    expected[object].front().second.expect_equal(frame);
    expected[object].pop_front();
  }
  EXPECT_FALSE(reader.mid_frame());
  EXPECT_EQ(sender.queued_bytes(), 0u);
}

TEST(Mux, GarbageIsRefused) {
  const auto refuse = [](ChunkHeader header) {
    Pair p;
    p.write_raw(&header, sizeof header);
    MuxReader reader({}, 1);
    uint32_t object = 0;
    Frame frame;
    EXPECT_THROW(reader.next(*p.b, object, frame), WireError);
  };
  ChunkHeader header;
  header.bytes = 1;
  header.mark = 0x47455420;  // "GET "
  refuse(header);
  header = ChunkHeader();
  refuse(header);  // no bytes
  header.bytes = kMaxChunk + 1;
  refuse(header);
  header.bytes = 1;
  header.pad = 1;
  refuse(header);
}

TEST(Mux, StrangersSendLittle) {
  Pair p;
  MuxSender sender;
  uint32_t object = 0;
  Frame frame;
  {
    MuxReader reader(kStrangerLimits, 1);
    sender.send(*p.a, 0, Message(4096).frame(1));
    EXPECT_EQ(reader.next(*p.b, object, frame), Got::kFrame);
    sender.send(*p.a, 0, Message(4097).frame(1));
    EXPECT_THROW(reader.next(*p.b, object, frame), WireError);
  }
  Pair q;
  MuxReader reader({}, 2);
  for (uint32_t i = 0; i < 3; ++i) {  // each begins a frame and does not end it
    ChunkHeader header;
    header.object = i;
    header.bytes = 1;
    q.write_raw(&header, sizeof header);
    q.write_raw("P", 1);
  }
  EXPECT_THROW(reader.next(*q.b, object, frame), WireError);
}

TEST(Mux, RandomBytesNeverDoHarm) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    Pair p;
    MuxSender sender;
    auto bytes = random_bytes(1 + random() % 2000, random());
    if (round % 2) {  // a good beginning
      ChunkHeader header;
      header.object = random() % 3;
      header.bytes = static_cast<uint32_t>(bytes.size());
      std::memcpy(bytes.data(), &header, std::min(sizeof header, bytes.size()));
      const uint32_t mark = FramePrefix::kMagic;
      if (bytes.size() > 20) std::memcpy(bytes.data() + 16, &mark, sizeof mark);
    }
    p.write_raw(bytes.data(), bytes.size());
    p.a.reset();
    MuxReader reader(kStrangerLimits, 2);
    uint32_t object = 0;
    Frame frame;
    try {
      while (reader.next(*p.b, object, frame) == Got::kFrame) {
      }
    } catch (const WireError&) {
    }
  }
}

TEST(Mux, APeerThatClosesIsNoticedByBothSides) {
  Pair p;
  MuxSender sender;
  MuxReader reader({}, 1);
  uint32_t object = 0;
  Frame frame;
  p.b.reset();
  EXPECT_EQ(sender.send(*p.a, 1, Message(10).frame(1)), Sent::kClosed);
  EXPECT_EQ(reader.next(*p.a, object, frame), Got::kClosed);
  EXPECT_FALSE(p.a->error().empty());
}

}  // namespace
}  // namespace parl::internal
