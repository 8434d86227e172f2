#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <numbers>

#include "parl/env/classic_control.h"
#include "parl/env/internal/canvas.h"

namespace parl {
namespace {

std::array<int, 3> pixel(const Image& image, int x, int y) {  // y from the top
  const size_t at = static_cast<size_t>((y * image.width + x) * 3);
  return {image.rgb.at(at), image.rgb.at(at + 1), image.rgb.at(at + 2)};
}

int count(const Image& image, std::array<int, 3> color) {
  int n = 0;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) n += pixel(image, x, y) == color;
  }
  return n;
}

constexpr std::array<int, 3> kWhite{255, 255, 255}, kBlack{0, 0, 0};

TEST(Canvas, FillsShapesWithSmoothEdges) {
  Image image;
  Canvas canvas(40, 20, image);
  EXPECT_EQ(count(image, kWhite), 800);
  canvas.polygon(std::array{Point{10, 2}, Point{20, 2}, Point{20, 5.5}, Point{10, 5.5}}, {10, 20, 30});
  EXPECT_EQ(count(image, {10, 20, 30}), 30) << "ten columns, three whole rows";
  EXPECT_EQ(pixel(image, 10, 17), (std::array{10, 20, 30})) << "y goes up";
  EXPECT_EQ(pixel(image, 15, 14), (std::array{133, 138, 143})) << "the half row is half painted";
  EXPECT_EQ(pixel(image, 9, 17), kWhite);
}

TEST(Canvas, CirclesHaveTheirArea) {
  Image image;
  Canvas canvas(60, 60, image);
  canvas.circle({30, 30}, 20, {0, 0, 0});
  double dark = 0;
  for (uint8_t value : image.rgb) dark += (255 - value) / 255.0 / 3;
  EXPECT_NEAR(dark, std::numbers::pi * 400, 12);
}

TEST(Canvas, ShapesOutsideAreCut) {
  Image image;
  Canvas canvas(10, 10, image);
  canvas.circle({0, 0}, 3, {0, 0, 0});
  canvas.line({-50, 5}, {50, 5}, 2, {0, 0, 0});
  canvas.circle({100, -100}, 5, {0, 0, 0});
  canvas.line({3, 3}, {3, 3}, 2, {0, 0, 0});
  EXPECT_EQ(pixel(image, 9, 5), kBlack);
  EXPECT_EQ(pixel(image, 9, 9), kWhite);
}

Image drawn(ClassicControl& env, std::vector<double> state) {
  Image image;
  env.set_state(state);
  env.render(image);
  return image;
}

TEST(Rendering, CartPoleShowsCartAndPoleWhereTheyAre) {
  CartPole env;
  const Image left = drawn(env, {-1.2, 0, 0, 0}), leaning = drawn(env, {1.2, 0, 0.2, 0});
  EXPECT_EQ(left.width, 600);
  EXPECT_EQ(left.height, 400);
  EXPECT_EQ(pixel(left, 150 - 20, 300), kBlack);
  EXPECT_EQ(pixel(leaning, 450 + 20, 300), kBlack);
  EXPECT_EQ(pixel(left, 450 + 20, 290), kWhite);
  const std::array<int, 3> pole{202, 152, 101};
  EXPECT_EQ(pixel(left, 150, 200), pole) << "upright";
  EXPECT_EQ(pixel(leaning, 450, 200), kWhite) << "leans to the right";
  EXPECT_EQ(pixel(leaning, 450 + 18, 200), pole);
}

TEST(Rendering, EveryTaskMovesItsPicture) {
  const auto differs = [](ClassicControl&& env, std::vector<double> a, std::vector<double> b) {
    const Image first = drawn(env, std::move(a)), second = drawn(env, std::move(b));
    EXPECT_LT(count(first, kWhite), first.width * first.height) << env.spec().id;
    EXPECT_NE(first.rgb, second.rgb) << env.spec().id;
  };
  differs(CartPole(), {0, 0, 0, 0}, {0, 0, 0.1, 0});
  differs(Acrobot(), {0, 0, 0, 0}, {0, 1, 0, 0});
  differs(MountainCar(), {-0.5, 0}, {-0.3, 0});
  differs(MountainCarContinuous(), {-0.5, 0, 0}, {-0.3, 0, 0});
  differs(Pendulum(), {0, 0, 0}, {1, 0, 0});
}

TEST(Rendering, PendulumShowsWhichWayTheMotorTurns) {
  Pendulum env;
  const auto after = [&](float torque) {
    std::vector<float> obs(3);
    env.set_state(std::vector<double>{0, 0, 0});
    env.step(Action::continuous({&torque, 1}), std::as_writable_bytes(std::span(obs)));
    return drawn(env, {std::numbers::pi, 0, env.state()[2]});
  };
  const Image left = after(2), right = after(-2), still = after(0);
  EXPECT_NE(left.rgb, right.rgb);
  EXPECT_GT(count(left, kBlack), count(still, kBlack));
  EXPECT_NEAR(count(left, kBlack), count(right, kBlack), 20) << "mirrored";
}

}  // namespace
}  // namespace parl
