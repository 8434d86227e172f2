#include "parl/env_mujoco/mujoco.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "parl/core/check.h"
#include "parl/env/wrappers.h"
#include "parl/env_mujoco/internal/task.h"
#include "parl/env_mujoco/mujoco_names.h"

namespace parl {
namespace {

using internal::MujocoArgs;
using internal::Simulation;
using internal::TaskEntry;

const std::vector<TaskEntry>& entries() {
  static const std::vector<TaskEntry> all{internal::half_cheetah_entry(),
                                          internal::hopper_entry(),
                                          internal::walker2d_entry(),
                                          internal::ant_entry(),
                                          internal::humanoid_entry(),
                                          internal::humanoid_standup_entry(),
                                          internal::swimmer_entry(),
                                          internal::inverted_pendulum_entry(),
                                          internal::inverted_double_pendulum_entry(),
                                          internal::reacher_entry(),
                                          internal::pusher_entry()};
  return all;
}

const TaskEntry& entry_of(const std::string& id) {
  std::vector<std::string> names;
  for (const TaskEntry& entry : entries()) {
    if (entry.id == id) return entry;
    names.emplace_back(entry.id);
  }
  raise("there is no MuJoCo task '{}'{}; there are: {}", id, did_you_mean(id, names), fmt::join(names, ", "));
}

std::vector<EnvOption> options_of(const TaskEntry& entry) {
  std::vector<EnvOption> options{
      {"xml_file", entry.xml_file, "the model: a file of Gymnasium's assets, or a path that begins with . / or ~"},
      {"frame_skip", std::to_string(entry.frame_skip), "physics steps for each step"}};
  options.insert(options.end(), entry.options.begin(), entry.options.end());
  options.insert(options.end(), {{"max_episode_steps", std::to_string(entry.max_episode_steps),
                                  "steps until an episode is truncated; 0: never"},
                                 {"width", "480", "of a picture"},
                                 {"height", "480", "of a picture"},
                                 {"camera_name", "track", "the model's camera; one that it has not: the free camera"},
                                 {"camera_id", "", "the same by number; -1: the free camera"},
                                 {"default_camera_config", entry.camera,
                                  "the free camera: distance:4/elevation:-20/azimuth:90/lookat:X:Y:Z, any of them"},
                                 {"max_geom", "1000", "shapes that fit into a picture"}});
  return options;
}

std::string summary_of(const std::string& id) {
  for (const MujocoName& name : kMujocoNames) {
    if (id == name.id) return fmt::format("MuJoCo: {}", name.summary);
  }
  raise("'{}' is not in mujoco_names.h", id);
}

}  // namespace

int mujoco_version() { return mj_version(); }

std::string mujoco_model_file(const std::string& xml_file) {
  namespace fs = std::filesystem;
  PARL_CHECK(!xml_file.empty(), "environment option 'xml_file' is empty");
  std::error_code ignored;
  if (xml_file[0] == '.' || xml_file[0] == '/' || xml_file[0] == '~') {
    const char* home = std::getenv("HOME");
    std::string path = xml_file[0] == '~' ? (home ? home : "") + xml_file.substr(1) : xml_file;
    if (!fs::is_regular_file(path, ignored)) raise("environment option 'xml_file': there is no file '{}'", path);
    return path;
  }
  const char* named = std::getenv("PARL_MUJOCO_ASSETS");
  const std::string folder = named && *named ? named : PARL_MUJOCO_ASSETS;
  if (folder.empty()) {
    raise(
        "no folder with MuJoCo models is known: run `make setup`, or name one (gymnasium/envs/mujoco/assets of an "
        "installed gymnasium) with the environment variable PARL_MUJOCO_ASSETS");
  }
  const fs::path file = fs::path(folder) / xml_file;
  if (fs::is_regular_file(file, ignored)) return file.string();
  std::vector<std::string> there;
  for (const auto& found : fs::directory_iterator(folder, ignored)) {
    if (found.path().extension() == ".xml") there.push_back(found.path().filename().string());
  }
  std::sort(there.begin(), there.end());
  raise(
      "the model '{}' is missing: there is no file {}{}. Run `make setup`, or set PARL_MUJOCO_ASSETS to a folder that "
      "has it; a file elsewhere is named with its path: xml_file=./my.xml",
      xml_file, file.string(), did_you_mean(xml_file, there));
}

std::unique_ptr<MujocoEnv> make_mujoco_env(const std::string& id, const EnvArgs& args) {
  const TaskEntry& entry = entry_of(id);
  const MujocoArgs read(id, args, options_of(entry));
  auto simulation = std::make_unique<Simulation>(mujoco_model_file(read.text("xml_file")));
  auto task = entry.make(read, *simulation);
  return std::make_unique<MujocoEnv>(read, std::move(simulation), std::move(task));
}

void register_mujoco_envs(EnvRegistry& registry) {
  for (const TaskEntry& entry : entries()) {
    const std::string id = entry.id;
    registry.add(
        id, summary_of(id),
        [id](const EnvRequest& request) -> std::unique_ptr<Env> {
          const TaskEntry& chosen = entry_of(id);
          const int steps = MujocoArgs(id, request.args, options_of(chosen)).whole("max_episode_steps", 0);
          std::unique_ptr<Env> env = make_mujoco_env(id, request.args);
          if (steps > 0) env = std::make_unique<TimeLimit>(std::move(env), steps);
          return env;
        },
        options_of(entry));
  }
}

}  // namespace parl
