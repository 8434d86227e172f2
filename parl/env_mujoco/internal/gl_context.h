// GlContext: an OpenGL context without a window, by EGL or OSMesa. Neither is linked: both are opened when asked for.
// make_current() and release() in the same thread, around every use of OpenGL.
#pragma once

#include <memory>

namespace parl::internal {

class GlContext {
 public:
  virtual ~GlContext() = default;
  virtual void make_current() = 0;
  virtual void release() = 0;
};

// For pictures up to width x height. Throws when this machine offers neither, saying what to install.
std::unique_ptr<GlContext> make_gl_context(int width, int height);

}  // namespace parl::internal
