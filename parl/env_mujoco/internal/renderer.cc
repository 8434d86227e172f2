#include "parl/env_mujoco/internal/renderer.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "parl/core/check.h"
#include "parl/env_mujoco/internal/gl_context.h"

namespace parl::internal {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(at, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The free camera looks at the middle of all shapes from as far as the model is wide, before the options change that.
mjvCamera free_camera(const MujocoArgs& args, const Simulation& simulation) {
  const mjModel& model = *simulation.model();
  mjvCamera camera;
  mjv_defaultCamera(&camera);
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<double> places;
    places.reserve(static_cast<size_t>(model.ngeom));
    for (int geom = 0; geom < model.ngeom; ++geom) places.push_back(simulation.data()->geom_xpos[3 * geom + axis]);
    camera.lookat[axis] = median(std::move(places));
  }
  camera.distance = model.stat.extent;
  constexpr const char* kOption = "default_camera_config";
  for (const std::string& setting : split(args.text(kOption), '/')) {
    const auto words = split(setting, ':');
    const bool is_place = words[0] == "lookat";
    double* const value = words[0] == "distance"    ? &camera.distance
                          : words[0] == "elevation" ? &camera.elevation
                          : words[0] == "azimuth"   ? &camera.azimuth
                          : is_place                ? camera.lookat
                                                    : nullptr;
    if (value == nullptr || words.size() != (is_place ? 4u : 2u)) {
      raise(
          "environment option '{}' has '{}'; it takes distance:D, elevation:E, azimuth:A and lookat:X:Y:Z, with / "
          "between",
          kOption, setting);
    }
    for (size_t i = 1; i < words.size(); ++i) value[i - 1] = parse_number(kOption, words[i]);
  }
  return camera;
}

mjvCamera camera_of(const MujocoArgs& args, const Simulation& simulation) {
  mjvCamera camera = free_camera(args, simulation);
  PARL_CHECK(!args.is_given("camera_id") || !args.is_given("camera_name"),
             "give camera_id or camera_name, not both: '{}'", args.id());
  const mjModel& model = *simulation.model();
  const int id = args.is_given("camera_id") ? args.whole("camera_id", -1)
                                            : mj_name2id(&model, mjOBJ_CAMERA, args.text("camera_name").c_str());
  PARL_CHECK(id < model.ncam, "environment option 'camera_id' is {}; the model has {} cameras", id, model.ncam);
  if (id >= 0) {
    camera.type = mjCAMERA_FIXED;
    camera.fixedcamid = id;
  }
  return camera;
}

}  // namespace

struct MujocoRenderer::Parts {
  Simulation& simulation;
  int width, height;
  std::unique_ptr<GlContext> gl;
  mjvCamera camera{};
  mjvOption option{};
  mjvPerturb perturb{};
  mjvScene scene{};
  mjrContext context{};
  std::vector<uint8_t> pixels{};  // the lowest row first

  void make(const MujocoArgs& args) {
    camera = camera_of(args, simulation);
    mjModel& model = *simulation.model();
    model.vis.global.offwidth = std::max<int>(model.vis.global.offwidth, width);
    model.vis.global.offheight = std::max<int>(model.vis.global.offheight, height);
    gl = make_gl_context(model.vis.global.offwidth, model.vis.global.offheight);
    gl->make_current();
    mjv_defaultOption(&option);
    mjv_defaultPerturb(&perturb);
    mjv_defaultScene(&scene);
    mjr_defaultContext(&context);
    mjv_makeScene(&model, &scene, args.whole("max_geom", 1));
    mjr_makeContext(&model, &context, mjFONTSCALE_150);
    mjr_setBuffer(mjFB_OFFSCREEN, &context);
    PARL_CHECK(context.currentBuffer == mjFB_OFFSCREEN, "MuJoCo cannot draw into memory with this OpenGL driver");
    gl->release();
    pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  }

  ~Parts() {
    if (!gl) return;
    try {
      gl->make_current();
      mjr_freeContext(&context);
      mjv_freeScene(&scene);
      gl->release();
    } catch (const Error&) {  // the driver is gone, and its memory with it
    }
  }
};

MujocoRenderer::MujocoRenderer(const MujocoArgs& args, Simulation& simulation)
    : parts_(new Parts{simulation, args.whole("width", 1), args.whole("height", 1), nullptr}) {
  parts_->make(args);
}

MujocoRenderer::~MujocoRenderer() = default;

void MujocoRenderer::draw(Image& out) {
  Parts& p = *parts_;
  const mjrRect all{0, 0, p.width, p.height};
  p.gl->make_current();
  mjv_updateScene(p.simulation.model(), p.simulation.data(), &p.option, &p.perturb, &p.camera, mjCAT_ALL, &p.scene);
  mjr_render(all, &p.scene, &p.context);
  mjr_readPixels(p.pixels.data(), nullptr, all, &p.context);
  p.gl->release();
  out.width = p.width;
  out.height = p.height;
  out.rgb.resize(p.pixels.size());
  const size_t row = static_cast<size_t>(p.width) * 3;
  for (size_t y = 0; y < static_cast<size_t>(p.height); ++y) {
    std::memcpy(out.rgb.data() + y * row, p.pixels.data() + p.pixels.size() - (y + 1) * row, row);
  }
}

}  // namespace parl::internal
