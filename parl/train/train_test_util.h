// Small runs for tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "parl/core/files.h"
#include "parl/train/checkpoint.h"
#include "parl/train/metrics.h"
#include "parl/train/train_config.h"
#include "parl/train/trainer.h"

namespace parl::testing {

// A folder that is removed with the object.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "parl_test_XXXXXX").string();
    PARL_CHECK(mkdtemp(name.data()) != nullptr, "no temporary folder");
    path_ = name;
  }
  ~TempDir() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A file system of its own in a temporary folder, so small that it can be filled. Needs root: see mounted().
class SmallDisk {
 public:
  explicit SmallDisk(int64_t kib)
      : mounted_(mount("tmpfs", dir_.path().c_str(), "tmpfs", 0, fmt::format("size={}k", kib).c_str()) == 0) {}
  ~SmallDisk() {
    if (mounted_) umount2(dir_.path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  std::string file(const std::string& name) const { return dir_.file(name); }
  void fill() const {
    std::ofstream out(file("filler"), std::ios::binary);
    const std::string page(4096, 'x');
    while (out.write(page.data(), 4096) && out.flush()) {
    }
  }
  void make_room() const { std::filesystem::remove(file("filler")); }

 private:
  TempDir dir_;
  bool mounted_;
};

// CartPole with a small network: some thousand steps a second under any sanitizer.
inline TrainConfig small_config(const std::string& run) {
  TrainConfig c;
  c.env = "CartPole-v1";
  c.model = "mlp";
  c.run = run;
  c.steps = 2'000;
  c.actors = 2;
  c.envs_per_actor = 2;
  c.rollout_length = 16;
  c.log_steps = 128;
  c.checkpoint_steps = 640;
  ImpalaConfig& impala = c.settings.as<ImpalaConfig>();
  impala.optimizer = OptimizerKind::kAdam;
  impala.lr = 1e-3;
  impala.eps = 1e-5;
  impala.loss_reduction = Reduction::kMean;
  impala.max_grad_norm = 0.5;
  impala.epochs = 2;
  impala.minibatches = 2;
  impala.clip = 0.2;
  return c;
}

inline TrainSummary run(const TrainConfig& config, TrainHooks hooks = {}) {
  hooks.show_status = false;
  return train(config, hooks);
}

// metrics.csv without its wall-clock columns, as text.
inline std::string curve(const std::string& run_dir) {
  const MetricsTable table = read_metrics(run_dir + "/metrics.csv");
  std::string out;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    bool wall = table.columns[c].ends_with("_share");
    for (const char* name : {"seconds", "steps_per_s", "queue_fill", "rss_mb"}) wall |= table.columns[c] == name;
    if (wall) continue;
    out += table.columns[c] + ":";
    for (const auto& row : table.rows) out += fmt::format(" {}", row[c]);
    out += "\n";
  }
  return out;
}

inline std::string final_weights(const std::string& run_dir) {
  return read_file(*latest_checkpoint(run_dir) + "/weights.safetensors");
}

// Where a run's actors break again and again: it must end with their error.
template <typename Run>
void expect_too_many_failures_end(TrainConfig c, const Run& run) {
  c.env = "Scripted-v0";
  c.env_args = {{"fault", "throw"}, {"at", "2"}, {"marker", "/nonexistent/folder/marker"}};
  c.max_replacements = 2;
  try {
    run(c);
    FAIL() << "the run did not end";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the simulator broke"), std::string::npos) << error.what();
  }
}

}  // namespace parl::testing
