// HiddenState: the parts of the console that the ALE's cloneState() leaves out. Without them a few games (Q*bert,
// Tetris) go on differently after a restore: they end emulation in mid-frame, and where the picture is being drawn is
// not saved. Values only, the same in every process: pointers into tables are kept as table and offset.
#pragma once

#include <array>
#include <cstdint>

namespace ale {
class ALEInterface;
}

namespace parl::internal {

struct HiddenState {
  bool partial_frame = false, frame_greyed = false;
  uint8_t data_bus = 0;
  int32_t frame_position = 0;  // of the next pixel in the current frame
  struct Place {
    int32_t table = 0, offset = 0;
  };
  std::array<Place, 6> masks{};  // ball, missiles, players, playfield: what is drawn where on this line
};

HiddenState read_hidden_state(ale::ALEInterface& ale);
void write_hidden_state(ale::ALEInterface& ale, const HiddenState& state);

}  // namespace parl::internal
