#include "parl/submit/process_loop.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <optional>

#include "parl/core/check.h"
#include "parl/core/error_of.h"

namespace parl::submit {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLong(60);

TEST(ProcessLoop, LinesOfBothStreamsInputAndExitCode) {
  Command command{{"sh", "-c", "read x; echo got $x; echo err >&2; printf 'no newline'; exit 3"}};
  command.input = "text\n";
  const Outcome outcome = run_command(command, kLong);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.output, "got text\nerr\nno newline\n");
}

TEST(ProcessLoop, InputLongerThanAPipeArrivesWhole) {
  Command command{{"wc", "-c"}};
  command.input.assign(3 << 20, 'x');
  EXPECT_NE(run_command(command, kLong).output.find("3145728"), std::string::npos);
}

TEST(ProcessLoop, TheEnvironmentIsAddedToOurs) {
  Command command{{"sh", "-c", "echo $PARL_A $PATH"}};
  command.environment = {{"PARL_A", "one two"}};
  const std::string out = run_command(command, kLong).output;
  EXPECT_EQ(out.find("one two /"), 0u) << out;
}

TEST(ProcessLoop, ThoseThatReadTheirInputEndWhenItIsClosed) {
  ProcessLoop loop;
  std::optional<int> code;
  bool is_up = false;
  Command command{{"sh", "-c", "echo up; cat; exit 4"}};
  command.keeps_input_open = true;
  const auto id = loop.start(
      command, [&](std::string_view) { is_up = true; }, [&](int c) { code = c; });
  while (!is_up) loop.run_once(seconds(1));
  EXPECT_TRUE(loop.is_running(id));
  loop.close_input(id);
  while (!code) loop.run_once(seconds(1));
  EXPECT_EQ(code, 4);
  EXPECT_FALSE(loop.is_running(id));
  loop.signal(id, SIGTERM);  // gone: no error
}

TEST(ProcessLoop, SignalsReachTheWholeGroupAndAreToldFromCodes) {
  ProcessLoop loop;
  std::optional<int> code;
  bool is_up = false;
  const auto id = loop.start(
      {{"sh", "-c", "sleep 1000 & echo up; wait"}}, [&](std::string_view) { is_up = true; }, [&](int c) { code = c; });
  while (!is_up) loop.run_once(seconds(1));
  loop.signal(id, SIGTERM);
  while (!code) loop.run_once(seconds(1));
  EXPECT_EQ(code, 128 + SIGTERM);
}

TEST(ProcessLoop, CallbacksMayStartTheNext) {
  ProcessLoop loop;
  std::string order;
  std::optional<int> code;
  loop.start(
      {{"echo", "a"}}, [&](std::string_view line) { order += line; },
      [&](int) {
        loop.start(
            {{"echo", "b"}}, [&](std::string_view line) { order += line; }, [&](int c) { code = c; });
      });
  while (!code) loop.run_once(seconds(1));
  EXPECT_EQ(order, "ab");
}

TEST(ProcessLoop, AProgramThatIsNotThereIsNamed) {
  EXPECT_NE(error_of([] {
              run_command({{"/no/such/program"}}, kLong);
            }).find("'/no/such/program' cannot be started: No such file"),
            std::string::npos);
}

TEST(ProcessLoop, ACommandThatTakesTooLongIsAnError) {
  EXPECT_NE(error_of([] {
              run_command({{"sleep", "1000"}}, milliseconds(1500));
            }).find("not ended within 1 s"),
            std::string::npos);
}

TEST(ProcessLoop, FindsPrograms) {
  EXPECT_TRUE(has_program("sh"));
  EXPECT_TRUE(has_program("/bin/sh"));
  EXPECT_FALSE(has_program("no-such-program-here"));
}

}  // namespace
}  // namespace parl::submit
