#include "parl/env_mujoco/internal/gl_context.h"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "parl/core/check.h"

namespace parl::internal {
namespace {

// RTLD_GLOBAL: MuJoCo looks for the library's functions among all that is loaded.
class Library {
 public:
  explicit Library(const char* file) : handle_(dlopen(file, RTLD_NOW | RTLD_GLOBAL)) {
    if (handle_ == nullptr) raise("{}", dlerror());
  }
  template <typename Function>
  Function* get(const char* name) const {
    void* symbol = dlsym(handle_, name);
    if (symbol == nullptr) raise("{}", dlerror());
    return reinterpret_cast<Function*>(symbol);
  }

 private:
  void* handle_;  // stays open: drivers leave threads and handlers behind
};

// What is used of EGL 1.5 (registry.khronos.org/EGL).
using EglInt = int32_t;
constexpr unsigned kEglOpenglApi = 0x30A2, kEglPlatformSurfaceless = 0x31DD, kEglPlatformDevice = 0x313F;
constexpr EglInt kEglNone = 0x3038;
constexpr std::array<EglInt, 15> kEglAttributes{
    0x3024,  8,      0x3023, 8,      0x3022, 8,      0x3025,  // red, green, blue
    24,      0x3026, 8,      0x3033, 1,      0x3040, 8,       // depth, stencil,
    kEglNone};                                                // pbuffer surfaces, desktop OpenGL

class EglContext final : public GlContext {
 public:
  EglContext() {
    open_display();
    void* config = nullptr;
    EglInt count = 0;
    const bool chosen = choose_config_(display_, kEglAttributes.data(), &config, 1, &count) != 0 && count > 0;
    if (!chosen) raise("EGL offers no desktop OpenGL with a depth buffer");
    bind_api_(kEglOpenglApi);
    context_ = create_context_(display_, config, nullptr, nullptr);
    if (context_ == nullptr) raise("EGL cannot make an OpenGL context (error {:#x})", get_error_());
  }
  ~EglContext() override { destroy_context_(display_, context_); }
  void make_current() override {
    bind_api_(kEglOpenglApi);  // of this thread
    if (make_current_(display_, nullptr, nullptr, context_) == 0) {
      raise("EGL cannot use its OpenGL context in this thread (error {:#x})", get_error_());
    }
  }
  void release() override { make_current_(display_, nullptr, nullptr, nullptr); }

 private:
  // A display without a window system: Mesa's, or that of a device. Displays are shared by the process and stay.
  void open_display() {
    using GetPlatformDisplay = void*(unsigned, void*, const intptr_t*);
    auto* const get_display = library_.get<GetPlatformDisplay>("eglGetPlatformDisplay");
    auto* const initialize = library_.get<unsigned(void*, EglInt*, EglInt*)>("eglInitialize");
    const auto opens = [&](unsigned platform, void* device) {
      display_ = get_display(platform, device, nullptr);
      return display_ != nullptr && initialize(display_, nullptr, nullptr) != 0;
    };
    using QueryDevices = unsigned(EglInt, void**, EglInt*);
    auto* const address = library_.get<void*(const char*)>("eglGetProcAddress");
    auto* const query = reinterpret_cast<QueryDevices*>(address("eglQueryDevicesEXT"));
    std::array<void*, 16> devices{};
    EglInt count = 0;
    if (query != nullptr) query(static_cast<EglInt>(devices.size()), devices.data(), &count);
    for (EglInt i = 0; i < count; ++i) {
      if (opens(kEglPlatformDevice, devices[static_cast<size_t>(i)])) return;
    }
    if (!opens(kEglPlatformSurfaceless, nullptr)) raise("EGL finds no display");
  }

  const Library library_{"libEGL.so.1"};
  unsigned (*const choose_config_)(void*, const EglInt*, void**, EglInt, EglInt*) =
      library_.get<unsigned(void*, const EglInt*, void**, EglInt, EglInt*)>("eglChooseConfig");
  unsigned (*const bind_api_)(unsigned) = library_.get<unsigned(unsigned)>("eglBindAPI");
  void* (*const create_context_)(void*, void*, void*, const EglInt*) =
      library_.get<void*(void*, void*, void*, const EglInt*)>("eglCreateContext");
  unsigned (*const destroy_context_)(void*, void*) = library_.get<unsigned(void*, void*)>("eglDestroyContext");
  unsigned (*const make_current_)(void*, void*, void*,
                                  void*) = library_.get<unsigned(void*, void*, void*, void*)>("eglMakeCurrent");
  EglInt (*const get_error_)() = library_.get<EglInt()>("eglGetError");
  void* display_ = nullptr;
  void* context_ = nullptr;
};

// What is used of OSMesa (GL/osmesa.h).
constexpr unsigned kOsmesaRgba = 0x1908, kGlUnsignedByte = 0x1401;

class OsmesaContext final : public GlContext {
 public:
  OsmesaContext(int width, int height)
      : width_(width), height_(height), pixels_(static_cast<size_t>(width) * static_cast<size_t>(height) * 4) {
    context_ =
        library_.get<void*(unsigned, int, int, int, void*)>("OSMesaCreateContextExt")(kOsmesaRgba, 24, 8, 0, nullptr);
    if (context_ == nullptr) raise("OSMesa cannot make an OpenGL context");
  }
  ~OsmesaContext() override { library_.get<void(void*)>("OSMesaDestroyContext")(context_); }
  void make_current() override {
    if (make_current_(context_, pixels_.data(), kGlUnsignedByte, width_, height_) == 0) {
      raise("OSMesa cannot use its OpenGL context in this thread");
    }
  }
  void release() override { make_current_(nullptr, nullptr, kGlUnsignedByte, 0, 0); }

 private:
  const Library library_{"libOSMesa.so.8"};
  unsigned char (*const make_current_)(void*, void*, unsigned, int, int) =
      library_.get<unsigned char(void*, void*, unsigned, int, int)>("OSMesaMakeCurrent");
  const int width_, height_;
  std::vector<uint8_t> pixels_;
  void* context_ = nullptr;
};

}  // namespace

std::unique_ptr<GlContext> make_gl_context(int width, int height) {
  const char* named = std::getenv("MUJOCO_GL");
  const std::string wanted = named != nullptr ? named : "";
  PARL_CHECK(wanted.empty() || wanted == "egl" || wanted == "osmesa",
             "MUJOCO_GL is '{}'; pictures into memory are made with egl or osmesa", wanted);
  std::string reasons;
  const auto add_reason = [&](const Error& e) {
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", e.what());
  };
  if (wanted != "osmesa") {
    try {
      return std::make_unique<EglContext>();
    } catch (const Error& e) {
      add_reason(e);
    }
  }
  if (wanted != "egl") {
    try {
      return std::make_unique<OsmesaContext>(width, height);
    } catch (const Error& e) {
      add_reason(e);
    }
  }
  raise(
      "MuJoCo cannot draw here: there is no OpenGL without a window ({}). Install EGL (Debian: libegl1 and a driver, "
      "libegl-mesa0 for the processor's) or OSMesa (libosmesa6)",
      reasons);
}

}  // namespace parl::internal
