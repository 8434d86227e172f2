// RunDir: the folder of one run, checked and locked before anything expensive starts.
//
//   <run>/config.json       the resolved settings (what `--config` takes)
//   <run>/metrics.csv       one row per log interval
//   <run>/tensorboard/      event files
//   <run>/log.txt           everything logged, also by workers
//   <run>/checkpoints/      see checkpoint.h
//   <run>/lock              held while a process trains in it
//
// The lock is the kernel's (flock): it ends with the process, however that ended; a second run in the same folder is an
// error that names the first one's process.
// Owner: one object per run; movable. Opening writes a probe file: an unwritable folder, a read-only file system or a
// full disk is an error (parl::Error) by that name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace parl {

class RunDir {
 public:
  // Makes the folder if it is absent. Needs at least `min_free_bytes` of disk.
  explicit RunDir(const std::string& path, int64_t min_free_bytes = 64 << 20);
  ~RunDir();
  RunDir(RunDir&& other) noexcept;
  RunDir& operator=(RunDir&& other) noexcept;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string config_file() const { return file("config.json"); }
  void save_config(std::string_view json) const;  // atomic
  std::string checkpoints() const { return file("checkpoints"); }

  // Copies the log into log.txt from now on, until the object goes.
  void start_log();

 private:
  std::string path_;
  int lock_ = -1;
  bool logging_ = false;
};

}  // namespace parl
