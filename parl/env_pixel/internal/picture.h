// Pictures of a board of planes. Pure functions; buffers are the caller's and keep their memory.
#pragma once

#include <span>
#include <vector>

#include "parl/env/env.h"
#include "parl/env_pixel/pixel_game.h"

namespace parl::internal {

// What each cell shows: 0 for nothing, c + 1 for channel c. The first channel that is on wins, those that lie behind
// come last. `top` becomes [height * width].
void find_top_channels(const PixelGameInfo& info, std::span<const std::byte> planes, std::vector<uint8_t>& top);

// The grey level of every channel, by its place in the order in which they win: from 255 in equal steps down to 75 or
// more; the empty cell is 0.
std::vector<uint8_t> grey_levels(const PixelGameInfo& info);

// A size x size picture, one byte a pixel; cell x covers the pixels from x * size / width to (x + 1) * size / width.
void draw_grey(const PixelGameInfo& info, std::span<const uint8_t> top, std::span<const uint8_t> levels, int size,
               std::span<std::byte> out);

void draw_rgb(const PixelGameInfo& info, std::span<const uint8_t> top, int pixels_per_cell, Image& out);

}  // namespace parl::internal
