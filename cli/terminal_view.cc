#include "cli/terminal_view.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "cli/command.h"

namespace parl::cli {
namespace {

using Rgb = std::array<int, 3>;

// The mean colour of the rectangle [x0, x1) x [y0, y1).
Rgb mean_colour(const Image& picture, int x0, int x1, int y0, int y1) {
  std::array<int64_t, 3> sum{};
  for (int y = y0; y < y1; ++y) {
    for (int x = x0; x < x1; ++x) {
      for (size_t c = 0; c < 3; ++c) sum[c] += picture.rgb[static_cast<size_t>((y * picture.width + x) * 3) + c];
    }
  }
  const int64_t area = static_cast<int64_t>(x1 - x0) * (y1 - y0);
  return {static_cast<int>(sum[0] / area), static_cast<int>(sum[1] / area), static_cast<int>(sum[2] / area)};
}

// How many pixels stand for `size` of the picture's.
int scaled(int size, double factor) { return std::max(1, static_cast<int>(std::lround(size * factor))); }

}  // namespace

std::string picture_text(const Image& picture, int columns, int lines) {
  if (picture.width <= 0 || picture.height <= 0) return "";
  double factor = std::min(static_cast<double>(columns) / picture.width, 2.0 * lines / picture.height);
  if (factor > 1) factor = std::floor(factor);
  const int width = std::min(columns, scaled(picture.width, factor));
  const int height = std::min(2 * lines, scaled(picture.height, factor));
  const auto at = [&](int x, int y) {
    const auto range = [](int i, int n, int size) {
      const int from = static_cast<int>(static_cast<int64_t>(i) * size / n);
      return std::pair(from, std::max(from + 1, static_cast<int>(static_cast<int64_t>(i + 1) * size / n)));
    };
    const auto [x0, x1] = range(x, width, picture.width);
    const auto [y0, y1] = range(y, height, picture.height);
    return mean_colour(picture, x0, x1, y0, y1);
  };
  std::string text;
  for (int y = 0; y < height; y += 2) {
    Rgb upper_before{-1, -1, -1}, lower_before = upper_before;
    for (int x = 0; x < width; ++x) {
      const Rgb upper = at(x, y), lower = y + 1 < height ? at(x, y + 1) : Rgb{0, 0, 0};
      if (upper != upper_before) text += fmt::format("\033[38;2;{};{};{}m", upper[0], upper[1], upper[2]);
      if (lower != lower_before) text += fmt::format("\033[48;2;{};{};{}m", lower[0], lower[1], lower[2]);
      text += "\u2580";
      upper_before = upper;
      lower_before = lower;
    }
    text += "\033[0m\n";
  }
  return text;
}

TerminalView::TerminalView(std::FILE* out) : out_(out) {
  if (!isatty(fileno(out_))) throw UsageError("--watch draws in a terminal, and this is none: use --video FILE.gif");
  std::fputs("\033[?25l", out_);
}

TerminalView::~TerminalView() {
  std::fputs("\033[0m\033[?25h", out_);
  std::fflush(out_);
}

void TerminalView::show(const Image& picture, double fps) {
  std::this_thread::sleep_until(next_);
  next_ = std::max(Clock::now(), next_) +
          std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / fps));
  winsize size{};
  if (ioctl(fileno(out_), TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row < 2) size = {24, 80, 0, 0};
  const std::string text = picture_text(picture, size.ws_col, size.ws_row - 1);
  if (lines_ > 0) std::fprintf(out_, "\033[%dA\033[J", lines_);
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
  lines_ = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace parl::cli
