#include "parl/submit/quote.h"

#include <gtest/gtest.h>

#include "parl/core/check.h"
#include "parl/submit/process_loop.h"

namespace parl::submit {
namespace {

const std::vector<std::string> kStrange = {"",    "a b",   "it's", "$HOME",       "`id`", "\"",      "\\",
                                           "*",   "a;b&c", "#",    "line\nbreak", "~",    "-n",      "!x",
                                           "'''", "{a,b}", "\t",   "a=b=c",       "<(x)", "\xc3\xa4"};

TEST(Quote, AShellReadsBackWhatWasQuoted) {
  std::vector<std::string> argv = {"printf", "<%s>"};
  argv.insert(argv.end(), kStrange.begin(), kStrange.end());
  const Outcome direct = run_command({argv}, std::chrono::seconds(60));
  const Outcome quoted = run_command({{"sh", "-c", shell_join(argv)}}, std::chrono::seconds(60));
  EXPECT_EQ(quoted.output, direct.output);
  const Outcome twice = run_command({{"sh", "-c", "sh -c " + shell_quote(shell_join(argv))}}, std::chrono::seconds(60));
  EXPECT_EQ(twice.output, direct.output);
}

TEST(Quote, PlainWordsStayPlain) { EXPECT_EQ(shell_join({"./a", "--b=1,2", "tcp://h:1"}), "./a --b=1,2 tcp://h:1"); }

TEST(Quote, SplitUndoesJoin) {
  EXPECT_EQ(shell_split(shell_join(kStrange)), kStrange);
  EXPECT_EQ(shell_split("  -p 22  -o\"Proxy Jump=a b\" 'c d'\\ e '' "),
            (std::vector<std::string>{"-p", "22", "-oProxy Jump=a b", "c d e", ""}));
  EXPECT_TRUE(shell_split("").empty());
  EXPECT_THROW(shell_split("'open"), Error);
  EXPECT_THROW(shell_split("end\\"), Error);
}

TEST(Quote, Yaml) { EXPECT_EQ(yaml_quote("a \"b\" \\ \n"), "\"a \\\"b\\\" \\\\ \\u000a\""); }

}  // namespace
}  // namespace parl::submit
