// For the tests of the games: what is on the board, as text.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "parl/env_pixel/pixel_game.h"

namespace parl {

// The cells of a channel that are on, "x,y x,y ...", row by row. Checks that every cell is 0 or 255.
inline std::string cells(const PixelGame& game, int channel) {
  const PixelGameInfo& info = game.info();
  std::vector<std::byte> planes(static_cast<size_t>(info.height * info.width) * info.channels.size(), std::byte{7});
  PixelBoard board(info, planes);
  game.draw(board);
  std::string out;
  for (int y = 0; y < info.height; ++y) {
    for (int x = 0; x < info.width; ++x) {
      const auto cell = static_cast<size_t>(y * info.width + x) * info.channels.size() + static_cast<size_t>(channel);
      const auto value = std::to_integer<int>(planes[cell]);
      if (value != 0) out += fmt::format("{}{},{}", out.empty() ? "" : " ", x, y);
      PARL_CHECK(value == 0 || value == 255, "a plane holds {}", value);
    }
  }
  return out;
}

}  // namespace parl
