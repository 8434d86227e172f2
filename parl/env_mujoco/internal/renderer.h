// MujocoRenderer: pictures of a simulation through MuJoCo's own OpenGL renderer, into memory.
// The OpenGL context is EGL's (libEGL.so.1) or OSMesa's (libOSMesa.so.8), whichever this machine has; looked up when
// the first picture is wanted, so programs need neither. MUJOCO_GL=egl|osmesa insists on one. An error says what to
// install. The simulation must outlive the renderer. One thread at a time, but not always the same.
#pragma once

#include <memory>

#include "parl/env/env.h"
#include "parl/env_mujoco/internal/arguments.h"
#include "parl/env_mujoco/internal/simulation.h"

namespace parl::internal {

class MujocoRenderer {
 public:
  MujocoRenderer(const MujocoArgs& args, Simulation& simulation);
  ~MujocoRenderer();
  void draw(Image& out);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace parl::internal
