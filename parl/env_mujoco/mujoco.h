// MuJoCo's locomotion and control tasks, Gymnasium's v5 set, on MuJoCo's C library: "HalfCheetah-v5", ..., "Pusher-v5".
//
//   register_mujoco_envs(registry);
//   auto env = registry.make({.id = "Ant-v5", .args = {{"healthy_z_range", "0.3..1"}}});
//
// The environment: mujoco_env.h. Every option: docs/mujoco.md. Registered names come with Gymnasium's time limits.
// Sources: Todorov et al. 2012, "MuJoCo: A physics engine for model-based control"; Gymnasium's v5 environments.
#pragma once

#include <memory>
#include <string>

#include "parl/env/registry.h"
#include "parl/env_mujoco/mujoco_env.h"

namespace parl {

void register_mujoco_envs(EnvRegistry& registry);

// The bare task, without its time limit. Throws on unknown names, options and values, and when the model is missing.
std::unique_ptr<MujocoEnv> make_mujoco_env(const std::string& id, const EnvArgs& args = {});

// The file behind `xml_file`: a path if it begins with '.', '/' or '~'; else a file in the folder that the environment
// variable PARL_MUJOCO_ASSETS names, else in the one of the set-up. Throws when it is missing, with what to do.
std::string mujoco_model_file(const std::string& xml_file);

// MuJoCo's version at run time: 3008001 is 3.8.1.
int mujoco_version();

}  // namespace parl
