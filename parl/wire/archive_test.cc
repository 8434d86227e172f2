#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "parl/wire/unshare.h"
#include "parl/wire/wire.h"

namespace parl {
namespace {

enum class Colour : uint16_t { kRed, kBlue };
struct Point {
  double x = 0, y = 0;
  bool operator==(const Point&) const = default;
};
PARL_FIELDS(Point, x, y);

struct Tree {
  int32_t value = 0;
  std::vector<Tree> children;
  std::unique_ptr<Tree> next;
};
PARL_FIELDS(Tree, value, children, next);

struct Empty {};
PARL_FIELDS(Empty);

// Stands for a tensor: copies share memory.
struct Shared {
  std::shared_ptr<int> cell = std::make_shared<int>(0);
};
struct HoldsShared {
  std::map<std::string, std::vector<std::optional<Shared>>> all;
  int n = 0;
};
PARL_FIELDS(HoldsShared, all, n);

// As a socket would: head bytes, and every attachment in a block of its own.
struct Message {
  std::vector<std::byte> head;
  std::vector<ReceivedAttachment> attachments;

  explicit Message(const Writer& w) : head(w.head().begin(), w.head().end()) {
    for (const Attachment& a : w.attachments()) {
      ReceivedAttachment received{ArrayBlock::allocate(a.bytes), a.bytes};
      std::memcpy(received.block.data(), a.data, a.bytes);
      attachments.push_back(std::move(received));
    }
  }
  Reader reader() { return Reader(head, attachments); }
};

template <typename T>
T round_trip(const T& value) {
  Writer w;
  wire::save(w, value);
  Message message(w);
  Reader r = message.reader();
  T out = wire::load<T>(r);
  r.finish();
  return out;
}

template <typename T>
T decode(std::vector<std::byte> head) {
  Reader r(head);
  return wire::load<T>(r);
}

}  // namespace

template <>
struct Wire<Shared> {
  static void schema(Schema& out) { out.text += "shared"; }
  static void save(Writer& w, const Shared& v) { w.number(*v.cell); }
  static void load(Reader& r, Shared& v) { v.cell = std::make_shared<int>(r.number<int>()); }
  static Shared deep_copy(const Shared& v) { return {std::make_shared<int>(*v.cell)}; }
};

namespace {

TEST(Wire, SchemaStrings) {
  EXPECT_EQ(wire::schema<int>(), "i4");
  EXPECT_EQ(wire::schema<long>(), "i8");
  EXPECT_EQ(wire::schema<size_t>(), "u8");
  EXPECT_EQ(wire::schema<std::vector<float>>(), "[f4");
  EXPECT_EQ(wire::schema<Point>(), "{x:f8,y:f8}");
  EXPECT_EQ((wire::schema<std::map<std::string, std::optional<Colour>>>()), "<s,?e:u2");
  EXPECT_EQ((wire::schema<std::tuple<bool, Array, std::array<char, 3>>>()), "(b1,a,[3]i1)");
  EXPECT_EQ((wire::schema<std::variant<int8_t, std::set<double>>>()), "|(i1,#f8)");
  EXPECT_EQ(wire::schema<Tree>(), "{value:i4,children:[@1,next:^@1}");
  EXPECT_EQ(wire::schema<void>(), "v");
}

TEST(Wire, RoundTripsEveryKind) {
  EXPECT_EQ(round_trip<int64_t>(std::numeric_limits<int64_t>::min()), std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(std::isnan(round_trip(std::nan(""))));
  EXPECT_EQ(round_trip(-std::numeric_limits<double>::infinity()), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(round_trip(Colour::kBlue), Colour::kBlue);
  EXPECT_EQ(round_trip(std::string("a\0b", 3)), std::string("a\0b", 3));
  EXPECT_EQ(round_trip(std::string(200000, 'x')), std::string(200000, 'x'));
  EXPECT_EQ(round_trip(Point{1, -2}), (Point{1, -2}));
  EXPECT_EQ(round_trip(std::vector<bool>{true, false, true}), (std::vector<bool>{true, false, true}));
  const std::vector<float> large(50000, 1.5f);
  EXPECT_EQ(round_trip(large), large);
  EXPECT_EQ(round_trip(std::vector<std::vector<float>>{large, {}, {2}}),
            (std::vector<std::vector<float>>{large, {}, {2}}));
  const std::map<std::string, std::pair<int, std::set<char>>> map{{"a", {1, {'x', 'y'}}}, {"", {}}};
  EXPECT_EQ(round_trip(map), map);
  const std::variant<int, std::string> v = "text";
  EXPECT_EQ(round_trip(v), v);
  EXPECT_EQ(round_trip(std::optional<Point>()), std::nullopt);
  EXPECT_EQ(*round_trip(std::make_unique<int>(4)), 4);
  round_trip(std::vector<Empty>(3));
  round_trip(std::tuple<>());
}

TEST(Wire, RoundTripsArrays) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 0}, Shape{2, 3}, Shape{300, 400}}) {
    Array a = Array::of<double>(shape);
    for (int64_t i = 0; i < a.size(); ++i) a.data<double>()[i] = i % 7 == 3 ? std::nan("") : static_cast<double>(i);
    EXPECT_EQ(round_trip(a), a);
  }
  Array moved;
  Array other = std::move(moved);
  EXPECT_EQ(round_trip(moved).shape(), Shape{0});  // NOLINT: moved-from on purpose
}

TEST(Wire, RoundTripsClassesInsideThemselves) {
  Tree t;
  t.value = 1;
  t.children.resize(2);
  t.children[1].next = std::make_unique<Tree>();
  t.children[1].next->value = 5;
  EXPECT_EQ(round_trip(std::vector<int>{}).size(), 0u);
  Writer w;
  wire::save(w, t);
  Message message(w);
  Reader r = message.reader();
  const Tree u = wire::load<Tree>(r);
  EXPECT_EQ(u.children[1].next->value, 5);
}

TEST(Wire, LargePayloadsAreAttachmentsWithoutCopy) {
  Writer w;
  const Array a = Array::of<float>({100000});
  const std::vector<double> v(20000);
  wire::save(w, a);
  wire::save(w, v);
  ASSERT_EQ(w.attachments().size(), 2u);
  EXPECT_EQ(w.attachments()[0].data, a.data());
  EXPECT_EQ(w.attachments()[0].array, &a);
  EXPECT_EQ(w.attachments()[1].data, reinterpret_cast<const std::byte*>(v.data()));
  EXPECT_LT(w.head().size(), 40u);
  Message message(w);
  const std::byte* where = message.attachments[0].block.data();
  Reader r = message.reader();
  EXPECT_EQ(wire::load<Array>(r).data(), where);  // received in place
}

TEST(Wire, WhatTravelsAndWhatDoesNot) {
  static_assert(Serialisable<int> && Serialisable<Tree> && Serialisable<std::vector<std::unique_ptr<Point>>> &&
                Serialisable<Empty>);
  static_assert(!Serialisable<int*> && !Serialisable<std::span<int>> && !Serialisable<std::string_view> &&
                !Serialisable<std::shared_ptr<int>> && !Serialisable<std::function<void()>> &&
                !Serialisable<const char*>);
  static_assert(!Serialisable<std::vector<int*>> && !Serialisable<std::reference_wrapper<int>> &&
                !Serialisable<std::thread>);
  struct Trivial {
    int x;
  };
  static_assert(!Serialisable<Trivial> && !Serialisable<std::vector<Trivial>> &&
                !Serialisable<std::optional<std::vector<Trivial>>>);
  struct Base {
    virtual ~Base() = default;
  };
  static_assert(!Serialisable<std::unique_ptr<Base>>);
}

TEST(Wire, HostileSizesAreRefusedBeforeMemoryIsTaken) {
  const auto with_count = [](uint64_t n) {
    Writer w;
    w.number(n);
    w.number<uint64_t>(0);
    return std::vector<std::byte>(w.head().begin(), w.head().end());
  };
  for (uint64_t n : {uint64_t{9}, uint64_t{1} << 20, uint64_t{1} << 40, ~uint64_t{0}, uint64_t{1} << 63}) {
    EXPECT_THROW(decode<std::string>(with_count(n)), WireError) << n;
    EXPECT_THROW(decode<std::vector<float>>(with_count(n)), WireError) << n;
    EXPECT_THROW(decode<std::vector<std::string>>(with_count(n)), WireError) << n;
    EXPECT_THROW((decode<std::map<int, int>>(with_count(n))), WireError) << n;
    EXPECT_THROW(decode<std::set<int>>(with_count(n)), WireError) << n;
  }
  Writer w;
  w.number<uint8_t>(static_cast<uint8_t>(DType::kF64));
  w.number<uint8_t>(3);
  for (int i = 0; i < 3; ++i) w.number<int64_t>(int64_t{1} << 21);
  EXPECT_THROW(decode<Array>({w.head().begin(), w.head().end()}), WireError);
  EXPECT_THROW(decode<bool>({std::byte{2}}), WireError);
  EXPECT_THROW((decode<std::variant<int, bool>>({std::byte{2}, std::byte{0}, std::byte{0}, std::byte{0}})), WireError);
}

TEST(Wire, TruncatedAndMutatedMessagesNeverCrash) {
  Tree t;
  t.children.resize(3);
  t.children[2].next = std::make_unique<Tree>();
  using All = std::tuple<std::string, Array, std::vector<float>, std::map<std::string, std::optional<double>>,
                         std::vector<bool>, std::variant<int, std::string>>;
  const All all("hello", Array::of<int32_t>({2, 2}), {1, 2, 3}, {{"k", 1.0}}, {true, false}, "v");
  Writer w;
  wire::save(w, all);
  wire::save(w, t);
  const std::vector<std::byte> good(w.head().begin(), w.head().end());
  const auto read = [](const std::vector<std::byte>& bytes) {
    Reader r(bytes);
    wire::load<All>(r);
    wire::load<Tree>(r);
    r.finish();
  };
  read(good);
  for (size_t n = 0; n < good.size(); ++n)
    EXPECT_THROW(read({good.begin(), good.begin() + static_cast<long>(n)}), WireError);
  uint32_t state = 1;
  for (int round = 0; round < 20000; ++round) {
    auto bad = good;
    for (int k = 0; k < 3; ++k) {
      state = state * 1664525 + 1013904223;
      bad[(state >> 8) % bad.size()] = static_cast<std::byte>(state >> 24);
    }
    try {
      read(bad);
    } catch (const WireError&) {
    }
  }
}

TEST(Wire, DeepNestingIsRefused) {
  Writer w;
  for (int i = 0; i < 100000; ++i) {
    w.number<int32_t>(1);
    w.number<uint64_t>(0);
    w.number(true);
  }
  EXPECT_THROW(decode<Tree>({w.head().begin(), w.head().end()}), WireError);
}

TEST(Unshare, ReplacesSharedPartsOnly) {
  static_assert(!wire::kNeedsUnshare<Tree> && !wire::kNeedsUnshare<std::vector<Array>> &&
                wire::kNeedsUnshare<HoldsShared>);
  HoldsShared a;
  a.all["x"].push_back(Shared{});
  std::tuple<HoldsShared, int> b(a, 1);
  wire::unshare(b);
  *a.all["x"][0]->cell = 9;
  EXPECT_EQ(*std::get<0>(b).all["x"][0]->cell, 0);
}

}  // namespace
}  // namespace parl
