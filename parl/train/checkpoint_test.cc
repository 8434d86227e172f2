#include "parl/train/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "parl/agent/checkpoint_files.h"
#include "parl/core/check.h"
#include "parl/core/files.h"
#include "parl/train/train_test_util.h"
#include "parl/train/trainer.h"

namespace parl {
namespace {

namespace fs = std::filesystem;
using testing::TempDir;

Checkpoint make(int64_t steps) {
  Checkpoint c;
  c.progress.steps = steps;
  c.progress.returns = {1.5, -2.5};
  Array big = Array::empty(DType::kF32, {40'000});  // an attachment of state.bin
  for (int64_t i = 0; i < big.size(); ++i) big.data<float>()[i] = static_cast<float>(i);
  c.weights.entries.push_back({"net.weight", Array::from<float>({1, 2, 3})});
  c.algorithm_state.entries.push_back({"optimizer/m", big});
  Rollout r;
  r.version = 7;
  r.obs = big;
  c.waiting.push_back(r);
  c.actors.resize(2);
  c.actors[1].sampler_positions = {9};
  c.config = "{}";
  return c;
}

TEST(Checkpoint, RoundTripsEverything) {
  TempDir dir;
  const std::string path = save_checkpoint(dir.path(), make(1200));
  const Checkpoint c = load_checkpoint(path);
  EXPECT_EQ(c.progress.steps, 1200);
  EXPECT_EQ(c.progress.returns, (std::vector<double>{1.5, -2.5}));
  EXPECT_EQ(c.weights.entries.at(0).name, "net.weight");
  EXPECT_TRUE(c.algorithm_state.entries.at(0).array == make(0).algorithm_state.entries.at(0).array);
  EXPECT_TRUE(c.waiting.at(0).obs == make(0).waiting.at(0).obs);
  EXPECT_EQ(c.waiting.at(0).version, 7);
  EXPECT_EQ(c.actors.at(1).sampler_positions.at(0), 9u);
}

TEST(Checkpoint, NewestIsFoundOldestGoBestStays) {
  TempDir dir;
  std::vector<std::string> paths;
  for (int64_t steps : {100, 20'000, 3'000}) paths.push_back(save_checkpoint(dir.path(), make(steps)));
  mark_best(dir.path(), paths[0]);
  EXPECT_EQ(latest_checkpoint(dir.path()), paths[1]);
  prune_checkpoints(dir.path(), 1);
  EXPECT_TRUE(fs::exists(paths[1]));
  EXPECT_FALSE(fs::exists(paths[0]));
  EXPECT_EQ(load_checkpoint(find_checkpoint(dir.path(), true)).progress.steps, 100);
  EXPECT_EQ(load_checkpoint(find_checkpoint(dir.path(), false)).progress.steps, 20'000);
}

TEST(Checkpoint, UnfinishedOnesAreInvisibleAndSwept) {
  TempDir dir;
  const std::string whole = save_checkpoint(dir.path(), make(10));
  const fs::path partial = dir.path() + "/checkpoints/step_000000000099.tmp";
  fs::create_directories(partial);
  std::ofstream(partial / "state.bin") << "half";
  EXPECT_EQ(latest_checkpoint(dir.path()), whole);
  prune_checkpoints(dir.path(), 3);
  EXPECT_FALSE(fs::exists(partial));
}

TEST(Checkpoint, DamageIsAnError) {
  TempDir dir;
  const std::string path = save_checkpoint(dir.path(), make(10));
  const std::string bytes = read_file(path + "/state.bin");
  for (size_t size : {size_t{0}, size_t{5}, bytes.size() / 2, bytes.size() - 1}) {
    write_file_atomically(path + "/state.bin", std::string_view(bytes).substr(0, size));
    EXPECT_THROW(load_checkpoint(path), Error) << size;
  }
  EXPECT_THROW(find_checkpoint(dir.path() + "/nothing", false), Error);
}

void flip_a_bit(const std::string& path, size_t from_the_end = 10) {
  std::string bytes = read_file(path);
  bytes.at(bytes.size() - from_the_end) ^= 4;
  std::ofstream(path, std::ios::binary) << bytes;
}

// Every file, in every way, is noticed; and the one before is what a run goes on from.
TEST(Checkpoint, ADamagedOneIsSetAsideForTheOneBefore) {
  for (const char* file : {kStateFile, kWeightsFile, "config.json", kManifestFile}) {
    for (const bool is_cut : {false, true}) {
      TempDir dir;
      save_checkpoint(dir.path(), make(10));
      save_checkpoint(dir.path(), make(20));
      const std::string newest = save_checkpoint(dir.path(), make(30));
      const std::string path = newest + "/" + file;
      if (is_cut) {
        fs::resize_file(path, fs::file_size(path) / 2);
      } else {
        flip_a_bit(path, 1);
      }
      EXPECT_THROW(load_checkpoint(newest), DamagedCheckpoint) << path;
      const auto loaded = load_latest_checkpoint(dir.path());
      ASSERT_TRUE(loaded) << path;
      EXPECT_EQ(loaded->progress.steps, 20);
      EXPECT_FALSE(fs::exists(newest));
      EXPECT_TRUE(fs::exists(dir.path() + "/checkpoints/damaged_step_000000000030/" + file));
      // It is in nobody's way.
      save_checkpoint(dir.path(), make(25));
      prune_checkpoints(dir.path(), 1);
      EXPECT_EQ(load_latest_checkpoint(dir.path())->progress.steps, 25);
    }
  }
}

TEST(Checkpoint, WhenAllAreDamagedTheRunDoesNotBeginAnew) {
  TempDir dir;
  EXPECT_FALSE(load_latest_checkpoint(dir.path()));
  for (int64_t steps : {10, 20}) flip_a_bit(save_checkpoint(dir.path(), make(steps)) + "/" + kWeightsFile);
  EXPECT_THROW(load_latest_checkpoint(dir.path()), DamagedCheckpoint);
  EXPECT_TRUE(latest_checkpoint(dir.path())) << "and nothing is moved";
}

TEST(Checkpoint, ARunGoesOnFromTheOneBeforeADamagedOne) {
  TempDir dir;
  TrainConfig c = testing::small_config(dir.file("run"));
  c.deterministic = true;
  c.checkpoint_steps = 500;
  c.keep_checkpoints = 2;
  TrainHooks hooks;
  hooks.show_status = false;
  const int64_t steps = train(c, hooks).steps;
  const std::string newest = *latest_checkpoint(c.run), weights = read_file(newest + "/" + kWeightsFile);
  flip_a_bit(newest + "/" + kStateFile);
  EXPECT_EQ(train(c, hooks).steps, steps);
  EXPECT_EQ(*latest_checkpoint(c.run), newest);
  EXPECT_EQ(read_file(newest + "/" + kWeightsFile), weights);
}

TEST(Checkpoint, PlayingWantsTheWeightsWhole) {
  TempDir dir;
  const std::string path = save_checkpoint(dir.path(), make(10));
  mark_best(dir.path(), path);
  const std::string best = dir.path() + "/checkpoints/best";
  EXPECT_EQ(load_checkpoint_weights(best).progress.steps, 10);
  fs::resize_file(path + "/" + kStateFile, 0);
  EXPECT_EQ(load_checkpoint_weights(best).progress.steps, 10) << "playing needs no state";
  flip_a_bit(path + "/" + kWeightsFile);
  EXPECT_THROW(load_checkpoint_weights(best), DamagedCheckpoint);
}

TEST(Checkpoint, ThoseOfEarlierVersionsHaveNoManifest) {
  TempDir dir;
  const std::string path = save_checkpoint(dir.path(), make(10));
  fs::remove(path + "/" + kManifestFile);
  EXPECT_EQ(load_checkpoint(path).progress.steps, 10);
  std::ofstream(path + "/anything else.bin") << "of whoever writes more files";
  write_manifest(path);
  EXPECT_EQ(load_latest_checkpoint(dir.path())->progress.steps, 10);
  std::ofstream(path + "/anything else.bin") << "of whoever writes fewer files";
  EXPECT_THROW(load_checkpoint(path), DamagedCheckpoint);
}

TEST(Checkpoint, AFullDiskNamesTheFileAndLeavesTheOldOnesAlone) {
  testing::SmallDisk disk(1024);
  if (!disk.mounted()) GTEST_SKIP() << "only root may mount a small file system";
  const std::string run = disk.file("run");
  const std::string first = save_checkpoint(run, make(10));
  disk.fill();
  for (int64_t steps : {10, 20}) {
    try {
      save_checkpoint(run, make(steps));
      FAIL() << "nobody noticed the full disk";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(run), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(latest_checkpoint(run), first);
  EXPECT_EQ(load_checkpoint(first).progress.steps, 10);
  disk.make_room();
  EXPECT_EQ(latest_checkpoint(run), first);
  EXPECT_EQ(load_checkpoint(save_checkpoint(run, make(20))).progress.steps, 20);
}

TEST(Checkpoint, SavingTheSameStepAgainReplacesIt) {
  TempDir dir;
  save_checkpoint(dir.path(), make(10));
  Checkpoint second = make(10);
  second.progress.updates = 5;
  const std::string path = save_checkpoint(dir.path(), second);
  EXPECT_EQ(load_checkpoint(path).progress.updates, 5);
}

}  // namespace
}  // namespace parl
