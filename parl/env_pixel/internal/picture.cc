#include "parl/env_pixel/internal/picture.h"

namespace parl::internal {
namespace {

// Channels in the order in which they win a cell.
template <typename F>
void for_each_channel(const PixelGameInfo& info, F&& f) {
  for (const bool behind : {false, true}) {
    for (size_t c = 0; c < info.channels.size(); ++c) {
      if (info.channels[c].behind == behind) f(c);
    }
  }
}

}  // namespace

void find_top_channels(const PixelGameInfo& info, std::span<const std::byte> planes, std::vector<uint8_t>& top) {
  const size_t cells = static_cast<size_t>(info.height) * static_cast<size_t>(info.width);
  const size_t channels = info.channels.size();
  top.assign(cells, 0);
  for_each_channel(info, [&](size_t c) {
    for (size_t cell = 0; cell < cells; ++cell) {
      const bool shows = top[cell] == 0 && planes[cell * channels + c] != std::byte{0};
      top[cell] = shows ? static_cast<uint8_t>(c + 1) : top[cell];
    }
  });
}

std::vector<uint8_t> grey_levels(const PixelGameInfo& info) {
  std::vector<uint8_t> levels(info.channels.size() + 1, 0);
  size_t place = 0;
  for_each_channel(info, [&](size_t c) {
    levels[c + 1] = static_cast<uint8_t>(255 - 180 * place / info.channels.size());
    ++place;
  });
  return levels;
}

void draw_grey(const PixelGameInfo& info, std::span<const uint8_t> top, std::span<const uint8_t> levels, int size,
               std::span<std::byte> out) {
  const auto line = static_cast<size_t>(size);
  for (int y = 0; y < info.height; ++y) {
    const int from = y * size / info.height, to = (y + 1) * size / info.height;
    std::byte* first = out.data() + static_cast<size_t>(from) * line;
    for (int x = 0; x < info.width; ++x) {
      const int left = x * size / info.width, right = (x + 1) * size / info.width;
      std::memset(first + left, levels[top[static_cast<size_t>(y * info.width + x)]],
                  static_cast<size_t>(right - left));
    }
    for (int row = from + 1; row < to; ++row) std::memcpy(out.data() + static_cast<size_t>(row) * line, first, line);
  }
}

void draw_rgb(const PixelGameInfo& info, std::span<const uint8_t> top, int pixels_per_cell, Image& out) {
  out.width = info.width * pixels_per_cell;
  out.height = info.height * pixels_per_cell;
  out.rgb.assign(static_cast<size_t>(out.width) * static_cast<size_t>(out.height) * 3, 0);
  uint8_t* pixel = out.rgb.data();
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x, pixel += 3) {
      const uint8_t shown = top[static_cast<size_t>(y / pixels_per_cell * info.width + x / pixels_per_cell)];
      if (shown != 0) std::memcpy(pixel, info.channels[shown - 1u].rgb.data(), 3);
    }
  }
}

}  // namespace parl::internal
