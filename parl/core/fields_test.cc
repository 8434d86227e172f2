#include "parl/core/fields.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {
struct Point {
  double x = 1, y = 2;
};
PARL_FIELDS(Point, x, y);

struct Settings {
  double lr = 1e-3;
  int actors = 2;
  std::vector<std::string> names;
};
PARL_CONFIG(Settings, (lr, "learning rate, first"), (actors, "remote actors"), (names, "names"));

struct Plain {};

TEST(Fields, WalksInOrderAndMayWrite) {
  Point p;
  std::string names;
  parl::for_each_field(p, [&](const char* name, double& value, const char*) {
    names += name;
    value *= 10;
  });
  EXPECT_EQ(names, "xy");
  EXPECT_EQ(p.y, 20);
  static_assert(parl::HasFields<Point> && !parl::HasFields<Plain>);
}

TEST(Fields, ConfigCarriesHelp) {
  std::string all;
  parl::for_each_field(Settings{}, [&](const char* name, const auto&, const char* help) {
    all += std::string(name) + "=" + help + ";";
  });
  EXPECT_EQ(all, "lr=learning rate, first;actors=remote actors;names=names;");
}
}  // namespace
