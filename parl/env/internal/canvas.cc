#include "parl/env/internal/canvas.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace parl {

Point Point::rotated(double angle) const {
  const double c = std::cos(angle), s = std::sin(angle);
  return {x * c - y * s, x * s + y * c};
}

Canvas::Canvas(int width, int height, Image& image) : image_(image) {
  image_.width = width;
  image_.height = height;
  image_.rgb.assign(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, 255);
}

// Colours every pixel by the share of its 4 x 4 sample points that are inside.
template <typename Inside>
void Canvas::fill(Point low, Point high, Color color, Inside inside) {
  constexpr int kSamples = 4;
  const int x0 = std::max(0, static_cast<int>(std::floor(low.x))),
            x1 = std::min(image_.width - 1, static_cast<int>(std::ceil(high.x)));
  const int y0 = std::max(0, static_cast<int>(std::floor(low.y))),
            y1 = std::min(image_.height - 1, static_cast<int>(std::ceil(high.y)));
  for (int y = y0; y <= y1; ++y) {
    for (int x = x0; x <= x1; ++x) {
      int hits = 0;
      for (int i = 0; i < kSamples * kSamples; ++i) {
        hits += inside(Point{x + (i % kSamples + 0.5) / kSamples, y + (i / kSamples + 0.5) / kSamples}) ? 1 : 0;
      }
      if (hits == 0) continue;
      uint8_t* pixel = &image_.rgb[(static_cast<size_t>(image_.height - 1 - y) * image_.width + x) * 3];
      const std::array<uint8_t, 3> paint{color.r, color.g, color.b};
      for (int c = 0; c < 3; ++c) {
        const int total = kSamples * kSamples;
        pixel[c] = static_cast<uint8_t>((pixel[c] * (total - hits) + paint[c] * hits + total / 2) / total);
      }
    }
  }
}

void Canvas::polygon(std::span<const Point> corners, Color color) {
  Point low = corners[0], high = corners[0];
  for (const Point& p : corners) {
    low = {std::min(low.x, p.x), std::min(low.y, p.y)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y)};
  }
  fill(low, high, color, [&](Point p) {  // even-odd rule
    bool inside = false;
    for (size_t i = 0, j = corners.size() - 1; i < corners.size(); j = i++) {
      const Point a = corners[i], b = corners[j];
      if ((a.y > p.y) != (b.y > p.y) && p.x < (b.x - a.x) * (p.y - a.y) / (b.y - a.y) + a.x) inside = !inside;
    }
    return inside;
  });
}

void Canvas::circle(Point center, double radius, Color color) {
  fill({center.x - radius, center.y - radius}, {center.x + radius, center.y + radius}, color, [&](Point p) {
    const double dx = p.x - center.x, dy = p.y - center.y;
    return dx * dx + dy * dy <= radius * radius;
  });
}

void Canvas::line(Point from, Point to, double width, Color color) {
  const double length = std::hypot(to.x - from.x, to.y - from.y);
  if (length == 0) return;
  const Point half{-(to.y - from.y) / length * width / 2, (to.x - from.x) / length * width / 2};
  const Point back{-half.x, -half.y};
  polygon(std::array{from + half, to + half, to + back, from + back}, color);
}

}  // namespace parl
