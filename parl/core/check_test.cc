#include "parl/core/check.h"

#include <gtest/gtest.h>

namespace parl {
namespace {

TEST(Check, MessageNamesExpressionValuesAndText) {
  try {
    const int have = 3;
    PARL_CHECK_EQ(have, 4, "batch of {}", "rollouts");
    FAIL() << "did not throw";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("have == 4"), std::string::npos) << text;
    EXPECT_NE(text.find("3 vs 4"), std::string::npos) << text;
    EXPECT_NE(text.find("batch of rollouts"), std::string::npos) << text;
    EXPECT_NE(text.find("check_test.cc"), std::string::npos) << text;
  }
}

TEST(Check, PassesWithoutEvaluatingTheMessage) {
  int evaluated = 0;
  PARL_CHECK(true, "{}", ++evaluated);
  EXPECT_EQ(evaluated, 0);
}

TEST(Error, RemembersWhereItWasThrown) {
  try {
    raise("lost {}", 3);
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "lost 3");
    EXPECT_NE(error.stack().find("parl_core_test+0x"), std::string::npos) << error.stack();
  }
}

TEST(NearestNames, FindsTyposAndPartsAndNothingForNonsense) {
  const std::vector<std::string> names = {"breakout", "pong", "seaquest", "space_invaders"};
  EXPECT_EQ(nearest_names("brekout", names).at(0), "breakout");
  EXPECT_EQ(nearest_names("SpaceInvaders", names).at(0), "space_invaders");
  EXPECT_EQ(nearest_names("quest", names).at(0), "seaquest");
  EXPECT_EQ(nearest_names("pogn", names).at(0), "pong");  // swapped letters
  EXPECT_TRUE(nearest_names("zzzzzzzz", names).empty());
  EXPECT_EQ(did_you_mean("pog", names), ", did you mean 'pong'?");
  EXPECT_EQ(did_you_mean("zzzzzzzz", names), "");
}

}  // namespace
}  // namespace parl
