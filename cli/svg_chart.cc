// The chart of seeds.h, drawn by hand: thin lines for curves, a band and a thick line for their mean.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/seeds.h"

namespace parl::cli {
namespace {

constexpr double kWidth = 760, kHeight = 460, kLeft = 70, kRight = 20, kTop = 40, kBottom = 55;

struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(const std::vector<double>& values) {
    for (const double v : values) {
      low = std::min(low, v);
      high = std::max(high, v);
    }
  }
  void settle() {  // never empty
    if (!(low <= high)) low = 0, high = 1;
    if (low == high) low -= 1, high += 1;
  }
};

// 1, 2 or 5 times a power of ten, giving about `count` ticks.
double tick_step(const Range& range, int count) {
  const double raw = (range.high - range.low) / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

std::string number(double value) {
  if (std::abs(value) >= 1e6) return fmt::format("{:g} M", value / 1e6);
  if (std::abs(value) >= 1e3) return fmt::format("{:g} k", value / 1e3);
  return fmt::format("{:g}", std::abs(value) < 1e-12 ? 0.0 : value);
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

class Canvas {
 public:
  Canvas(Range x, Range y) : x_(x), y_(y) {
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
        kWidth, kHeight);
  }
  double px(double x) const { return kLeft + (x - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight); }
  double py(double y) const {
    return kHeight - kBottom - (y - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom);
  }

  void axes(const std::string& title, const std::string& x_label, const std::string& y_label) {
    const double x_step = tick_step(x_, 8), y_step = tick_step(y_, 7);
    for (double t = std::ceil(y_.low / y_step) * y_step; t <= y_.high + 1e-9 * y_step; t += y_step) {
      text_ += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", kLeft,
                           kWidth - kRight, py(t), py(t));
      label(kLeft - 8, py(t) + 4, "end", number(t));
    }
    for (double t = std::ceil(x_.low / x_step) * x_step; t <= x_.high + 1e-9 * x_step; t += x_step) {
      text_ += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>\n",
                           px(t), kTop, kHeight - kBottom);
      label(px(t), kHeight - kBottom + 18, "middle", number(t));
    }
    label(kLeft, 24, "start", title, "font-size=\"15\" font-weight=\"bold\"");
    label((kLeft + kWidth - kRight) / 2, kHeight - 12, "middle", x_label);
    label(0, 0, "middle", y_label,
          fmt::format("transform=\"translate(18,{}) rotate(-90)\"", (kTop + kHeight - kBottom) / 2));
  }

  void line(const std::vector<double>& x, const std::vector<double>& y, const std::string& style) {
    text_ += "<polyline fill=\"none\" " + style + " points=\"" + points(x, y) + "\"/>\n";
  }
  void band(const std::vector<double>& x, const std::vector<double>& low, const std::vector<double>& high,
            const std::string& style) {
    std::vector<double> x2(x.rbegin(), x.rend()), low2(low.rbegin(), low.rend());
    text_ += "<polygon " + style + " points=\"" + points(x, high) + points(x2, low2) + "\"/>\n";
  }
  void label(double x, double y, const std::string& anchor, const std::string& text, const std::string& style = "") {
    text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y, anchor, style,
                         escape(text));
  }
  std::string finish() { return text_ + "</svg>\n"; }

 private:
  std::string points(const std::vector<double>& x, const std::vector<double>& y) const {
    std::string out;
    for (size_t i = 0; i < x.size(); ++i) out += fmt::format("{:.1f},{:.1f} ", px(x[i]), py(y[i]));
    return out;
  }
  Range x_, y_;
  std::string text_;
};

constexpr const char* kColours[] = {"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728",
                                    "#9467bd", "#8c564b", "#e377c2", "#17becf"};

}  // namespace

std::string svg_chart(const std::string& title, const std::string& x_label, const std::string& y_label,
                      const std::vector<Curve>& curves, const MeanCurve& mean) {
  Range x, y;
  for (const Curve& c : curves) {
    x.add(c.x);
    y.add(c.y);
  }
  y.add(mean.low);
  y.add(mean.high);
  x.settle();
  y.settle();
  Canvas canvas(x, y);
  canvas.axes(title, x_label, y_label);
  if (curves.size() > 1) canvas.band(mean.x, mean.low, mean.high, "fill=\"#000\" fill-opacity=\"0.12\"");
  for (size_t i = 0; i < curves.size(); ++i) {
    const std::string colour = kColours[i % std::size(kColours)];
    canvas.line(curves[i].x, curves[i].y, "stroke=\"" + colour + "\" stroke-width=\"1.3\"");
    canvas.label(kLeft + 10, kTop + 16 + 16 * static_cast<double>(i), "start", curves[i].name,
                 "fill=\"" + colour + "\"");
  }
  if (curves.size() > 1) {
    canvas.line(mean.x, mean.mean, "stroke=\"#000\" stroke-width=\"2.2\"");
    canvas.label(kLeft + 10, kTop + 16 + 16 * static_cast<double>(curves.size()), "start", "mean, 95 % interval");
  }
  return canvas.finish();
}

}  // namespace parl::cli
