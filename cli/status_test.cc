#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "parl/remote/remote.h"

namespace parl::cli {
namespace {

using ::testing::HasSubstr;

class Greeting {
 public:
  int sum(int a, int b) { return a + b; }
};
PARL_REMOTE_CLASS_AS("cli_test.Greeting", Greeting, sum);

std::string printed_by(int (*verb)(const Arguments&), const Arguments& args) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(verb(args), kSuccess);
  return ::testing::internal::GetCapturedStdout();
}

TEST(StatusVerb, TellsOfALearnerInWordsAndJson) {
  RemoteManager manager("tcp://127.0.0.1:0");
  const std::string words = printed_by(verb_status, {manager.engine()});
  EXPECT_THAT(words, HasSubstr("workers  0 connected"));
  const std::string text = printed_by(verb_status, {manager.engine(), "--json"});
  const size_t last = text.rfind('\n', text.size() - 2);
  const auto json = nlohmann::json::parse(text.substr(last + 1));
  EXPECT_EQ(json["engine"], manager.engine());
  EXPECT_EQ(json["pid"], ::getpid());
  EXPECT_EQ(json["slots"]["used"], 0);
  EXPECT_EQ(json["stats"]["calls"], 0);
  EXPECT_TRUE(json["list"].is_array());
  EXPECT_TRUE(json["last_losses"].is_array());
}

TEST(StatusVerb, WorkersSaysHowToStartSome) {
  RemoteManager manager("tcp://127.0.0.1:0");
  EXPECT_THAT(printed_by(verb_workers, {manager.engine()}), HasSubstr("--parl-worker " + manager.engine()));
}

TEST(StatusVerb, AnOfferedObjectIsARow) {
  RemoteManager manager("tcp://127.0.0.1:0");
  std::thread actor([&] { as_remote(Greeting(), manager.engine()); });
  {
    auto greeting = manager.get_remote<Greeting>();
    EXPECT_EQ(greeting->sum(2, 3), 5);
    EXPECT_THAT(printed_by(verb_workers, {manager.engine()}), HasSubstr("as_remote"));
    const std::string text = printed_by(verb_workers, {manager.engine(), "--json"});
    const auto json = nlohmann::json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1));
    ASSERT_EQ(json["list"].size(), 1u);
    EXPECT_EQ(json["list"][0]["pid"], ::getpid());
    EXPECT_EQ(json["list"][0]["calls"], 1);
    EXPECT_EQ(json["list"][0]["gpus"], nlohmann::json::array());
  }
  actor.join();
}

TEST(StatusVerb, AWrongTimeoutIsAUsageError) {
  for (const char* wrong : {"0", "-1", "nan", "1e300", "soon"})
    EXPECT_THROW(verb_status({"tcp://127.0.0.1:1", "--timeout", wrong}), UsageError) << wrong;
}

TEST(StatusVerb, AWrongAddressIsAnError) { EXPECT_THROW(verb_status({"nowhere"}), Error); }

}  // namespace
}  // namespace parl::cli
