#include "parl/remote/internal/version_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <thread>

#include "parl/remote/internal/version_shelf.h"
#include "parl/wire/versioned.h"

namespace parl::internal {
namespace {

using Text = Versioned<std::string>;

std::vector<std::byte> bytes_of(const Writer& writer) {
  const auto head = writer.head();
  return std::vector<std::byte>(head.begin(), head.end());
}

// The worker's end of the road.
class Worker final : public VersionLibrary::Road {
 public:
  void send_value(uint64_t key, Writer writer, std::shared_ptr<const void>) override {
    sent_.push_back(key);
    Frame frame;
    frame.id = key;
    frame.head = bytes_of(writer);
    shelf.put(key, std::move(frame));
  }
  void send_forget(uint64_t key) override { shelf.forget(key); }
  size_t sent() const { return sent_.size(); }
  VersionShelf shelf;

 private:
  std::vector<uint64_t> sent_;
};

struct Message {
  std::vector<std::byte> head;
  VersionLibrary::Loans loans;
};

struct Library : ::testing::Test {
  Worker worker;
  std::shared_ptr<VersionLibrary> library = std::make_shared<VersionLibrary>(worker);
  VersionLibrary::Borrower borrower{library};

  Message write(const Text& text) {
    Writer writer(&borrower);
    wire::save(writer, text);
    return {bytes_of(writer), borrower.take_loans()};
  }
  Text read(const Message& message) {
    Reader reader(message.head, {}, &worker.shelf);
    auto text = wire::load<Text>(reader);
    reader.finish();
    return text;
  }
};

TEST_F(Library, AValueTravelsOnceForAllObjectsOfAWorker) {
  const Text one(7, "one");
  VersionLibrary::Borrower other(library);
  for (int i = 0; i < 3; ++i) {
    const Text here = read(write(one));
    EXPECT_EQ(*here, "one");
    EXPECT_EQ(here.version(), 7);
    Writer writer(&other);
    wire::save(writer, one);
    Reader reader(writer.head(), {}, &worker.shelf);
    EXPECT_EQ(wire::load<Text>(reader).shared(), here.shared()) << "objects share one copy";
    other.take_loans();
  }
  EXPECT_EQ(worker.sent(), 1u);
  EXPECT_EQ(borrower.skipped() + other.skipped(), 5u);
  EXPECT_TRUE(read(write(Text())).shared() == nullptr);
}

TEST_F(Library, WhatNobodyHereHasIsForgotten) {
  auto one = std::make_unique<Text>(1, "one");
  Message message = write(*one);
  one.reset();
  library->tidy();
  EXPECT_EQ(library->held(), 1u) << "a message that is not answered names it";
  EXPECT_EQ(*read(message), "one");
  message.loans.clear();
  EXPECT_EQ(library->held(), 0u);
  EXPECT_EQ(worker.shelf.size(), 0u);
  EXPECT_THROW(read(message), WireError) << "what was forgotten is not waited for";
}

TEST_F(Library, OnlyTheLastFewAreKept) {
  std::vector<Text> all;
  std::vector<Message> unanswered;
  for (int i = 0; i < 30; ++i) {
    all.emplace_back(i, std::to_string(i));
    unanswered.push_back(write(all.back()));
  }
  EXPECT_EQ(worker.shelf.size(), 30u);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(*read(unanswered[static_cast<size_t>(i)]), std::to_string(i));
  unanswered.clear();
  EXPECT_EQ(library->held(), VersionLibrary::kKept);
  EXPECT_EQ(worker.shelf.size(), VersionLibrary::kKept);
  EXPECT_EQ(*read(write(all[29])), "29");
  EXPECT_EQ(worker.sent(), 30u);
  EXPECT_EQ(*read(write(all[0])), "0");
  EXPECT_EQ(worker.sent(), 31u) << "it had been forgotten";
}

TEST_F(Library, WhatCouldNotBeReadTravelsAgain) {
  const Text one(1, "one");
  {
    Message first = write(one);
    for (auto& loan : first.loans) loan.spoil();
  }
  EXPECT_EQ(library->held(), 0u);
  EXPECT_EQ(*read(write(one)), "one");
  EXPECT_EQ(worker.sent(), 2u);
}

TEST_F(Library, AMessageWaitsForTheValueThatItOvertook) {
  VersionShelf shelf;
  const auto load = [](Reader& in) -> std::shared_ptr<const void> {
    return std::make_shared<const std::string>(wire::load<std::string>(in));
  };
  const void* tag = &wire::kTypeTag<std::string>;
  auto found = std::async(std::launch::async, [&] { return shelf.find(1, tag, load); });
  auto also = std::async(std::launch::async, [&] { return shelf.find(1, tag, load); });
  auto never = std::async(std::launch::async, [&] { return shelf.find(2, tag, load); });
  Writer writer;
  wire::save(writer, std::string("late"));
  Frame frame;
  frame.head = bytes_of(writer);
  shelf.put(1, std::move(frame));
  const auto value = found.get();
  EXPECT_EQ(*static_cast<const std::string*>(value.get()), "late");
  EXPECT_EQ(also.get(), value);
  EXPECT_EQ(shelf.find(1, &wire::kTypeTag<int>, load), nullptr) << "of another type";
  shelf.close();
  EXPECT_THROW(never.get(), WireError);
  EXPECT_THROW(shelf.put(1, Frame()), WireError) << "keys rise";
}

TEST_F(Library, WhatDoesNotDecodeIsAnErrorForAll) {
  VersionShelf shelf;
  Frame frame;
  frame.head.resize(3);
  shelf.put(1, std::move(frame));
  const auto load = [](Reader& in) -> std::shared_ptr<const void> {
    return std::make_shared<const std::string>(wire::load<std::string>(in));
  };
  for (int i = 0; i < 2; ++i) EXPECT_THROW(shelf.find(1, &wire::kTypeTag<std::string>, load), WireError);
}

// Fails to be written once.
struct Moody {
  static inline bool is_angry = false;
};

}  // namespace
}  // namespace parl::internal

template <>
struct parl::Wire<parl::internal::Moody> {
  static void schema(Schema& out) { out.text += "moody"; }
  static void save(Writer& w, const parl::internal::Moody&) {
    if (parl::internal::Moody::is_angry) throw WireError("angry");
    w.number<uint8_t>(1);
  }
  static void load(Reader& r, parl::internal::Moody&) { r.number<uint8_t>(); }
};

namespace parl::internal {
namespace {

TEST_F(Library, WhatCouldNotBeWrittenIsNotThere) {
  const Versioned<Moody> value(1, Moody{});
  Moody::is_angry = true;
  Writer writer(&borrower);
  EXPECT_THROW(wire::save(writer, value), WireError);
  EXPECT_EQ(library->held(), 0u);
  Moody::is_angry = false;
  wire::save(writer, value);
  EXPECT_EQ(worker.sent(), 1u);
}

TEST_F(Library, SeveralCallersSendOneValueOnce) {
  std::vector<Text> values;
  for (int i = 0; i < 20; ++i) values.emplace_back(i, std::string(100, 'x'));
  std::vector<std::jthread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      VersionLibrary::Borrower own(library);
      for (const Text& value : values) {
        Writer writer(&own);
        wire::save(writer, value);
        const auto loans = own.take_loans();
        Reader reader(writer.head(), {}, &worker.shelf);
        EXPECT_EQ(wire::load<Text>(reader)->size(), 100u);
      }
    });
  }
  callers.clear();
  EXPECT_LE(library->held(), VersionLibrary::kKept);
  EXPECT_EQ(worker.shelf.size(), library->held());
}

}  // namespace
}  // namespace parl::internal
