#include "parl/remote/internal/frame.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <thread>

#include "parl/wire/array_pool.h"

namespace parl::internal {
namespace {

using Got = FrameReader::Got;
using Sent = FrameSender::Sent;

struct Sockets {
  explicit Sockets(int flags = SOCK_NONBLOCK) {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0, fds), 0);
    a.reset(fds[0]);
    b.reset(fds[1]);
  }
  UniqueFd a, b;
};

struct Content {
  Content(size_t head_bytes, std::vector<size_t> body_bytes, unsigned seed = 1) {
    std::mt19937 random(seed);
    const auto fill = [&](std::vector<std::byte>& v) {
      for (auto& x : v) x = static_cast<std::byte>(random());
    };
    head.resize(head_bytes);
    fill(head);
    for (size_t n : body_bytes) fill(bodies.emplace_back(n));
  }
  OutgoingFrame frame(uint8_t kind, uint64_t id) const {
    OutgoingFrame f;
    f.prefix.kind = kind;
    f.prefix.id = id;
    f.prefix.head = head.size();
    f.prefix.attachments = static_cast<uint32_t>(bodies.size());
    f.head = head;
    for (const auto& body : bodies) {
      f.places.push_back({body.size(), 0, 0, AttachmentPlace::kInStream});
      f.bodies.emplace_back(body);
    }
    return f;
  }
  void expect_equal(const Frame& f) const {
    EXPECT_TRUE(std::equal(f.head.begin(), f.head.end(), head.begin(), head.end()));
    ASSERT_EQ(f.attachments.size(), bodies.size());
    for (size_t i = 0; i < bodies.size(); ++i) {
      ASSERT_EQ(f.attachments[i].bytes, bodies[i].size());
      EXPECT_TRUE(std::equal(bodies[i].begin(), bodies[i].end(), f.attachments[i].block.data()));
    }
  }
  std::vector<std::byte> head;
  std::vector<std::vector<std::byte>> bodies;
};

// All bytes of a frame as they stand on the wire.
std::vector<std::byte> wire_bytes(const Content& content, uint8_t kind = 1, uint64_t id = 2) {
  const OutgoingFrame f = content.frame(kind, id);
  std::vector<std::byte> all;
  const auto add = [&](const void* p, size_t n) {
    const auto* b = static_cast<const std::byte*>(p);
    all.insert(all.end(), b, b + n);
  };
  add(&f.prefix, sizeof f.prefix);
  add(f.places.data(), f.places.size() * sizeof(AttachmentPlace));
  add(f.head.data(), f.head.size());
  for (const auto& body : f.bodies) add(body.data(), body.size());
  return all;
}

TEST(Frame, SmallFramesArriveInOrder) {
  Sockets s;
  FrameSender sender;
  FrameReader reader;
  Frame frame;
  EXPECT_EQ(reader.next(s.b.get(), frame), Got::kNothing);
  const Content content(40, {});
  for (uint64_t id = 0; id < 50; ++id) EXPECT_EQ(sender.send(s.a.get(), content.frame(3, id)), Sent::kAll);
  for (uint64_t id = 0; id < 50; ++id) {
    ASSERT_EQ(reader.next(s.b.get(), frame), Got::kFrame);
    EXPECT_EQ(frame.id, id);
    EXPECT_EQ(frame.kind, 3);
    content.expect_equal(frame);
  }
  EXPECT_FALSE(reader.mid_frame());
  EXPECT_EQ(reader.next(s.b.get(), frame), Got::kNothing);
  s.a.reset();
  EXPECT_EQ(reader.next(s.b.get(), frame), Got::kClosed);
}

TEST(Frame, EverySplitOfTheStreamGivesTheSameFrames) {
  const Content content(100, {70000, 0, 5});
  const auto bytes = wire_bytes(content);
  for (size_t step : {1u, 7u, 31u, 33u, 4096u, 32768u, 60000u}) {
    Sockets s;
    FrameReader reader;
    Frame frame;
    size_t sent = 0;
    int frames = 0;
    while (sent < bytes.size()) {
      const size_t n = std::min(step, bytes.size() - sent);
      ASSERT_EQ(::write(s.a.get(), bytes.data() + sent, n), static_cast<ssize_t>(n));
      sent += n;
      if (reader.next(s.b.get(), frame) == Got::kFrame) ++frames;
    }
    EXPECT_EQ(frames, 1) << step;
    content.expect_equal(frame);
  }
}

TEST(Frame, LargeFramesWaitForTheSocketAndSurviveTheirOwner) {
  Sockets s;
  FrameSender sender;
  FrameReader reader;
  Frame frame;
  const Content expected(1000, {5u << 20, 100, 3u << 20});
  {
    const Content content(1000, {5u << 20, 100, 3u << 20});  // not kept: the sender copies what it cannot send
    EXPECT_EQ(sender.send(s.a.get(), content.frame(1, 1)), Sent::kPending);
  }
  EXPECT_EQ(sender.send(s.a.get(), Content(10, {}).frame(1, 2)), Sent::kPending) << "order is kept";
  EXPECT_GT(sender.queued_bytes(), 8u << 20);
  Got got = Got::kNothing;
  while ((got = reader.next(s.b.get(), frame)) == Got::kNothing) ASSERT_NE(sender.flush(s.a.get()), Sent::kClosed);
  ASSERT_EQ(got, Got::kFrame);
  EXPECT_EQ(frame.id, 1u);
  expected.expect_equal(frame);
  while ((got = reader.next(s.b.get(), frame)) == Got::kNothing) ASSERT_NE(sender.flush(s.a.get()), Sent::kClosed);
  EXPECT_EQ(frame.id, 2u);
  EXPECT_FALSE(sender.pending());
  EXPECT_EQ(sender.queued_bytes(), 0u);
}

TEST(Frame, MoreAttachmentsThanOneSystemCallTakes) {
  Sockets s(0);
  const Content content(10, std::vector<size_t>(500, 777));
  std::jthread writer([&] {
    FrameSender sender;
    Sent sent = sender.send(s.a.get(), content.frame(1, 1));
    while (sent == Sent::kPending) sent = sender.flush(s.a.get());
    EXPECT_EQ(sent, Sent::kAll);
  });
  FrameReader reader;
  Frame frame;
  ASSERT_EQ(reader.next(s.b.get(), frame), Got::kFrame);
  content.expect_equal(frame);
}

TEST(Frame, GarbageIsRefused) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Sockets s;
    std::vector<uint8_t> noise(200);
    for (auto& x : noise) x = static_cast<uint8_t>(random());
    ASSERT_EQ(::write(s.a.get(), noise.data(), noise.size()), 200);
    FrameReader reader(kStrangerLimits);
    Frame frame;
    EXPECT_THROW(reader.next(s.b.get(), frame), WireError);
  }
}

TEST(Frame, DamagedFramesNeverReadOutsideTheirMemory) {
  const auto good = wire_bytes(Content(300, {1000, 2000}));
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    auto bytes = good;
    for (int flips = 0; flips < 3; ++flips) bytes[4 + random() % 160] = static_cast<std::byte>(random());
    Sockets s;
    ASSERT_GT(::write(s.a.get(), bytes.data(), bytes.size()), 0);
    s.a.reset();
    FrameReader reader({1 << 16, 1 << 20, 100});
    Frame frame;
    try {
      while (reader.next(s.b.get(), frame) == Got::kFrame) {
      }
    } catch (const WireError&) {
    }
  }
}

TEST(Frame, TruncatedFramesAreNoFrames) {
  const auto bytes = wire_bytes(Content(300, {100000}));
  for (size_t keep : {1u, 31u, 32u, 40u, 200u, 400u, 100000u}) {
    Sockets s;
    ASSERT_EQ(::write(s.a.get(), bytes.data(), keep), static_cast<ssize_t>(keep));
    s.a.reset();
    FrameReader reader;
    Frame frame;
    EXPECT_EQ(reader.next(s.b.get(), frame), Got::kClosed);
    EXPECT_TRUE(reader.mid_frame()) << "cut off, not finished";
  }
}

TEST(Frame, OversizedFramesAreRefusedBeforeMemoryIsTaken) {
  rusage before{};
  ::getrusage(RUSAGE_SELF, &before);
  const auto refused = [](FramePrefix prefix, std::vector<AttachmentPlace> places, FrameLimits limits) {
    Sockets s;
    EXPECT_GT(::write(s.a.get(), &prefix, sizeof prefix), 0);
    if (!places.empty()) {
      EXPECT_GT(::write(s.a.get(), places.data(), places.size() * sizeof places[0]), 0);
    }
    FrameReader reader(limits);
    Frame frame;
    EXPECT_THROW(reader.next(s.b.get(), frame), WireError);
  };
  FramePrefix prefix;
  prefix.head = 4097;
  refused(prefix, {}, kStrangerLimits);
  prefix.head = ~uint64_t{0};
  refused(prefix, {}, {});
  prefix.head = 0;
  prefix.attachments = ~uint32_t{0};
  refused(prefix, {}, {});
  prefix.attachments = 1;
  refused(prefix, {}, kStrangerLimits);
  refused(prefix, {{uint64_t{1} << 41}}, {});
  prefix.attachments = 2;
  refused(prefix, {{~uint64_t{0}}, {2}}, {});
  refused(prefix, {{600}, {500}}, {100, 1000, 10});
}

TEST(Frame, WhatThePeerWouldRefuseIsNotSent) {
  Writer writer;
  writer.text(std::string(100, 'x'));
  EXPECT_NO_THROW(check_frame_size(writer));
  EXPECT_THROW(check_frame_size(writer, {50, 1000, 10}), WireError);
  const std::string large(kInlineLimit + 1, 'x');
  writer.text(large);
  EXPECT_THROW(check_frame_size(writer, {1000, 1000, 10}), WireError);
  EXPECT_THROW(check_frame_size(writer, {1000, 1 << 20, 0}), WireError);
}

TEST(Frame, ALargeFrameLetsOthersHaveTheirTurn) {
  Sockets s(0);
  const Content content(10, {40u << 20});
  std::jthread writer([&] {
    FrameSender sender;
    Sent sent = sender.send(s.a.get(), content.frame(1, 1));
    while (sent == Sent::kPending) sent = sender.flush(s.a.get());
  });
  FrameReader reader;
  Frame frame;
  uint64_t before = 0;
  Got got;
  while ((got = reader.next(s.b.get(), frame, false)) == Got::kNothing) {
    EXPECT_LE(reader.bytes_received() - before, 9u << 20);
    before = reader.bytes_received();
  }
  ASSERT_EQ(got, Got::kFrame);
  content.expect_equal(frame);
}

TEST(Frame, SharedMemoryIsRefusedWhereNoneIsAgreed) {
  Sockets s;
  FramePrefix prefix;
  prefix.attachments = 1;
  const AttachmentPlace place{100000, 0, 0, AttachmentPlace::kSendersSlab};
  ASSERT_GT(::write(s.a.get(), &prefix, sizeof prefix), 0);
  ASSERT_GT(::write(s.a.get(), &place, sizeof place), 0);
  FrameReader reader;
  Frame frame;
  EXPECT_THROW(reader.next(s.b.get(), frame), WireError);
}

struct NoMemory : ArrayAllocator {
  ArrayBlock allocate(size_t) override { throw std::bad_alloc(); }
};

TEST(Frame, WithoutMemoryTheFrameIsSkippedAndTheNextOneArrives) {
  Sockets s(0);
  std::jthread writer([&] {
    FrameSender sender;
    const Content content(10, {300000});
    for (uint64_t id : {1, 2}) {
      Sent sent = sender.send(s.a.get(), content.frame(1, id));
      while (sent == Sent::kPending) sent = sender.flush(s.a.get());
    }
  });
  FrameReader reader;
  Frame frame;
  {
    NoMemory none;
    const ArrayAllocatorScope scope(&none);
    ASSERT_EQ(reader.next(s.b.get(), frame), Got::kFrame);
    EXPECT_TRUE(frame.out_of_memory);
    EXPECT_EQ(frame.id, 1u);
  }
  ASSERT_EQ(reader.next(s.b.get(), frame), Got::kFrame);
  EXPECT_FALSE(frame.out_of_memory);
  EXPECT_EQ(frame.id, 2u);
}

// Memory of this process that malloc has given out, and all that it has reserved. Sanitizers count the first as 0.
size_t given_out() {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}
size_t reserved() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

// A peer announces a gigabyte, and 64 of an array, and sends little of them.
TEST(Frame, WhatIsAnnouncedTakesNoMemoryBeforeItComes) {
  constexpr size_t kSent = 300000;
  const std::vector<std::byte> some(kSent, std::byte{7});
  const auto begin = [&](FrameParser& parser, uint64_t head, uint64_t body) {
    FramePrefix prefix;
    prefix.head = head;
    prefix.attachments = body > 0 ? 1 : 0;
    AttachmentPlace place;
    place.bytes = body;
    Frame frame;
    auto bytes = std::as_bytes(std::span(&prefix, 1));
    EXPECT_FALSE(parser.parse(bytes, frame));
    bytes = std::as_bytes(std::span(&place, prefix.attachments));
    EXPECT_FALSE(parser.parse(bytes, frame));
    bytes = some;
    EXPECT_FALSE(parser.parse(bytes, frame));
    EXPECT_TRUE(bytes.empty());
  };
  const size_t given_before = given_out(), reserved_before = reserved();
  FrameParser head, body, table;
  begin(head, size_t{1} << 30, 0);
  EXPECT_LT(given_out() - given_before, 4 * kSent);
  begin(body, 0, uint64_t{64} << 30);
  FramePrefix prefix;
  prefix.attachments = 1u << 20;
  Frame frame;
  auto bytes = std::as_bytes(std::span(&prefix, 1));
  EXPECT_FALSE(table.parse(bytes, frame));
  EXPECT_LT(given_out() - given_before, 4 * kSent);
  EXPECT_LT(reserved() - reserved_before, size_t{100} << 20);
}

// Head, table and body larger than what is taken at once, straight into place or by pieces.
TEST(Frame, WhatGrowsArrivesWhole) {
  const FrameSteps steps;
  const size_t head_bytes = steps.head * 5 + 17, body_bytes = steps.body * 2 + 12345, many = steps.table * 3;
  std::vector<std::byte> head(head_bytes), body(body_bytes);
  for (size_t i = 0; i < head_bytes; ++i) head[i] = static_cast<std::byte>(i * 7 >> 3);
  for (size_t i = 0; i < body_bytes; ++i) body[i] = static_cast<std::byte>(i * 11 >> 4);
  FramePrefix prefix;
  prefix.head = head_bytes;
  prefix.attachments = static_cast<uint32_t>(many);
  std::vector<AttachmentPlace> places(many);
  places[1].bytes = body_bytes;
  places[many - 1].bytes = 1;
  const std::byte last{42};
  for (const bool is_direct : {false, true}) {
    FrameParser parser;
    Frame frame;
    bool is_whole = false;
    const auto feed = [&](std::span<const std::byte> bytes) {
      while (!bytes.empty() && !is_whole) {
        auto piece = bytes.first(std::min<size_t>(bytes.size(), 1000003));
        bytes = bytes.subspan(piece.size());
        while (is_direct && !piece.empty() && !parser.direct().empty()) {
          const auto direct = parser.direct();
          const size_t count = std::min(direct.size(), piece.size());
          std::memcpy(direct.data(), piece.data(), count);
          parser.filled(count);
          piece = piece.subspan(count);
          std::span<const std::byte> none;
          is_whole = parser.parse(none, frame);
        }
        if (!piece.empty()) is_whole = parser.parse(piece, frame);
        ASSERT_TRUE(piece.empty());
      }
    };
    feed(std::as_bytes(std::span(&prefix, 1)));
    feed(std::as_bytes(std::span(places)));
    feed(head);
    feed(body);
    EXPECT_FALSE(is_whole);
    feed(std::span(&last, 1));
    ASSERT_TRUE(is_whole);
    EXPECT_EQ(frame.head, head);
    ASSERT_EQ(frame.attachments.size(), many);
    EXPECT_EQ(std::memcmp(frame.attachments[1].block.data(), body.data(), body_bytes), 0);
    EXPECT_EQ(*frame.attachments[many - 1].block.data(), last);
    EXPECT_FALSE(frame.out_of_memory);
  }
}

TEST(Frame, DescriptorsComeAlong) {
  Sockets s;
  FrameSender sender;
  const Content content(10, {});
  OutgoingFrame frame = content.frame(9, 1);
  frame.descriptor.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(sender.send(s.a.get(), std::move(frame)), Sent::kAll);
  FrameReader reader({}, nullptr, true);
  Frame got;
  ASSERT_EQ(reader.next(s.b.get(), got), Got::kFrame);
  const UniqueFd fd = reader.take_descriptor();
  ASSERT_TRUE(fd);
  EXPECT_TRUE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC);
  EXPECT_FALSE(reader.take_descriptor());
}

TEST(Frame, AClosedPeerIsSeenBySender) {
  Sockets s;
  s.b.reset();
  FrameSender sender;
  EXPECT_EQ(sender.send(s.a.get(), Content(10, {}).frame(1, 1)), Sent::kClosed);
}

}  // namespace
}  // namespace parl::internal
