#include "parl/env_atari/internal/hidden_state.h"

#include "ale/ale_interface.hpp"
#include "ale/emucore/Console.hxx"
#include "ale/emucore/System.hxx"
#include "ale/emucore/TIA.hxx"
#include "parl/core/check.h"

// The ALE offers no access to these members. Explicit instantiation may name private members (C++20 [temp.spec]/6), so
// one template hands out pointers to them; a version of the ALE without them does not compile here.
namespace parl::internal {
namespace {

using ale::stella::System;
using ale::stella::TIA;

template <typename Tag, typename Tag::Type kMember>
struct Reveal {
  friend constexpr typename Tag::Type member(Tag) { return kMember; }
};

#define PARL_REVEAL(Tag, Kind, expression) \
  struct Tag {                             \
    using Type = Kind;                     \
    friend constexpr Type member(Tag);     \
  };                                       \
  template struct Reveal<Tag, expression>;

PARL_REVEAL(PartialFrame, bool TIA::*, &TIA::myPartialFrameFlag)
PARL_REVEAL(FrameGreyed, bool TIA::*, &TIA::myFrameGreyed)
PARL_REVEAL(FramePointer, uint8_t* TIA::*, &TIA::myFramePointer)
PARL_REVEAL(BallMask, const uint8_t* TIA::*, &TIA::myCurrentBLMask)
PARL_REVEAL(Missile0Mask, const uint8_t* TIA::*, &TIA::myCurrentM0Mask)
PARL_REVEAL(Missile1Mask, const uint8_t* TIA::*, &TIA::myCurrentM1Mask)
PARL_REVEAL(Player0Mask, const uint8_t* TIA::*, &TIA::myCurrentP0Mask)
PARL_REVEAL(Player1Mask, const uint8_t* TIA::*, &TIA::myCurrentP1Mask)
PARL_REVEAL(PlayfieldMask, const uint32_t* TIA::*, &TIA::myCurrentPFMask)
PARL_REVEAL(DataBus, uint8_t System::*, &System::myDataBusState)

using BallTable = uint8_t[4][4][320];
using DisabledTable = const uint8_t[640];
using MissileTable = uint8_t[4][8][4][320];
using PlayerTable = uint8_t[4][2][8][320];
using PlayfieldTable = uint32_t[2][160];
PARL_REVEAL(BallMasks, BallTable*, &TIA::ourBallMaskTable)
PARL_REVEAL(DisabledMasks, DisabledTable*, &TIA::ourDisabledMaskTable)
PARL_REVEAL(MissileMasks, MissileTable*, &TIA::ourMissleMaskTable)
PARL_REVEAL(PlayerMasks, PlayerTable*, &TIA::ourPlayerMaskTable)
PARL_REVEAL(PlayfieldMasks, PlayfieldTable*, &TIA::ourPlayfieldTable)
#undef PARL_REVEAL

struct Table {
  const uint8_t* begin;
  int32_t bytes;
};

std::array<Table, 5> tables() {
  const auto table = [](const auto* array) {
    return Table{reinterpret_cast<const uint8_t*>(array), static_cast<int32_t>(sizeof(*array))};
  };
  return {table(member(BallMasks())), table(member(DisabledMasks())), table(member(MissileMasks())),
          table(member(PlayerMasks())), table(member(PlayfieldMasks()))};
}

HiddenState::Place place_of(const void* pointer) {
  const auto* at = static_cast<const uint8_t*>(pointer);
  const auto all = tables();
  for (size_t i = 0; i < all.size(); ++i) {
    if (at >= all[i].begin && at < all[i].begin + all[i].bytes) {
      return {static_cast<int32_t>(i), static_cast<int32_t>(at - all[i].begin)};
    }
  }
  raise("the console draws with an unknown mask: this version of the ALE is not supported");
}

const uint8_t* pointer_to(const HiddenState::Place& place) {
  const auto all = tables();
  PARL_CHECK(place.table >= 0 && place.table < static_cast<int32_t>(all.size()) && place.offset >= 0 &&
                 place.offset < all[place.table].bytes,
             "the saved state is damaged");
  return all[place.table].begin + place.offset;
}

TIA& tia_of(ale::ALEInterface& ale) { return dynamic_cast<TIA&>(ale.theOSystem->console().mediaSource()); }

}  // namespace

HiddenState read_hidden_state(ale::ALEInterface& ale) {
  TIA& tia = tia_of(ale);
  HiddenState state;
  state.partial_frame = tia.*member(PartialFrame());
  state.frame_greyed = tia.*member(FrameGreyed());
  state.data_bus = ale.theOSystem->console().system().*member(DataBus());
  state.frame_position = static_cast<int32_t>(tia.*member(FramePointer()) - tia.currentFrameBuffer());
  state.masks = {place_of(tia.*member(BallMask())),     place_of(tia.*member(Missile0Mask())),
                 place_of(tia.*member(Missile1Mask())), place_of(tia.*member(Player0Mask())),
                 place_of(tia.*member(Player1Mask())),  place_of(tia.*member(PlayfieldMask()))};
  return state;
}

void write_hidden_state(ale::ALEInterface& ale, const HiddenState& state) {
  TIA& tia = tia_of(ale);
  PARL_CHECK(state.frame_position >= 0 && state.frame_position <= 160 * 300, "the saved state is damaged");
  tia.*member(PartialFrame()) = state.partial_frame;
  tia.*member(FrameGreyed()) = state.frame_greyed;
  ale.theOSystem->console().system().*member(DataBus()) = state.data_bus;
  tia.*member(FramePointer()) = tia.currentFrameBuffer() + state.frame_position;
  tia.*member(BallMask()) = pointer_to(state.masks[0]);
  tia.*member(Missile0Mask()) = pointer_to(state.masks[1]);
  tia.*member(Missile1Mask()) = pointer_to(state.masks[2]);
  tia.*member(Player0Mask()) = pointer_to(state.masks[3]);
  tia.*member(Player1Mask()) = pointer_to(state.masks[4]);
  tia.*member(PlayfieldMask()) = reinterpret_cast<const uint32_t*>(pointer_to(state.masks[5]));
}

}  // namespace parl::internal
