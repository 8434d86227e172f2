// A small software rasteriser for pictures of environments: filled shapes with smooth edges on a white ground.
// Coordinates are pixels with y upwards, (0, 0) in the lower left corner.
#pragma once

#include <span>

#include "parl/env/env.h"

namespace parl {

struct Point {
  double x = 0, y = 0;
  Point operator+(Point o) const { return {x + o.x, y + o.y}; }
  Point rotated(double angle) const;  // counter-clockwise, about the origin
};

struct Color {
  uint8_t r = 0, g = 0, b = 0;
};

class Canvas {
 public:
  Canvas(int width, int height, Image& image);  // fills `image` with white

  void polygon(std::span<const Point> corners, Color color);
  void circle(Point center, double radius, Color color);
  void line(Point from, Point to, double width, Color color);

 private:
  template <typename Inside>
  void fill(Point low, Point high, Color color, Inside inside);
  Image& image_;
};

}  // namespace parl
