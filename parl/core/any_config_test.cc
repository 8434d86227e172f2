#include "parl/core/any_config.h"

#include <gtest/gtest.h>

namespace parl {
namespace {

struct Small {
  double lr = 0.5;
  int passes = 2;
};
PARL_CONFIG(Small, (lr, "rate"), (passes, "how many"));
struct Other {
  bool fast = false;
};
PARL_CONFIG(Other, (fast, "or slow"));

TEST(AnyConfig, HoldsOneTypeByValue) {
  AnyConfig a = Small{};
  AnyConfig b = a;
  b.as<Small>().lr = 0.1;
  EXPECT_EQ(a.as<Small>().lr, 0.5);
  EXPECT_EQ(b.as<Small>().lr, 0.1);
  EXPECT_TRUE(a.holds<Small>());
  EXPECT_FALSE(a.holds<Other>());
  EXPECT_THROW(a.as<Other>(), Error);
  a = Other{};
  EXPECT_FALSE(a.as<Other>().fast);
  EXPECT_THROW(AnyConfig().as<Small>(), Error);
}

TEST(AnyConfig, FieldsAreViews) {
  AnyConfig a = Small{};
  const ConfigFields fields = a.fields("small.");
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].path, "small.lr");
  EXPECT_EQ(fields[0].flag, "lr");
  config_set(fields, "passes", "7");
  EXPECT_EQ(a.as<Small>().passes, 7);
  EXPECT_TRUE(AnyConfig().fields("x.").empty());
}

}  // namespace
}  // namespace parl
