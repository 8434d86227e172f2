// The names of the MuJoCo tasks: known also to a build without MuJoCo, which says how to get them.
// Constants; any thread.
#pragma once

#include <array>

namespace parl {

struct MujocoName {
  const char* id;
  const char* summary;
};

inline constexpr std::array<MujocoName, 11> kMujocoNames{{
    {"HalfCheetah-v5", "a planar cheetah runs as fast as it can (6 torques)"},
    {"Hopper-v5", "one leg hops forward without falling (3 torques)"},
    {"Walker2d-v5", "two planar legs walk without falling (6 torques)"},
    {"Ant-v5", "a four-legged ant walks without turning over (8 torques)"},
    {"Humanoid-v5", "a humanoid walks without falling (17 torques)"},
    {"HumanoidStandup-v5", "a humanoid gets up from the floor (17 torques)"},
    {"Swimmer-v5", "three links swim through a viscous fluid (2 torques)"},
    {"InvertedPendulum-v5", "balance a pole on a cart (1 force)"},
    {"InvertedDoublePendulum-v5", "balance two poles, one on the other, on a cart (1 force)"},
    {"Reacher-v5", "a planar arm of two links reaches a target (2 torques)"},
    {"Pusher-v5", "an arm of seven joints pushes a cylinder to a goal (7 torques)"},
}};

}  // namespace parl
