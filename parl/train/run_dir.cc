#include "parl/train/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "parl/core/check.h"
#include "parl/core/files.h"
#include "parl/core/log.h"

namespace parl {
namespace {

namespace fs = std::filesystem;

// Opens <run>/lock and takes it, or says who has it.
int take_lock(const std::string& path) {
  const std::string file = path + "/lock";
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) throw Error(file_error("write", file, errno));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    char holder[32] = {};
    const ssize_t n = ::read(fd, holder, sizeof holder - 1);
    ::close(fd);
    if (error != EWOULDBLOCK) throw Error(file_error("lock", file, error));
    const std::string pid(holder, n > 0 ? static_cast<size_t>(n) : 0);
    raise("another process{} is training in '{}'; stop it first, or give another --run",
          pid.empty() ? "" : " (" + pid + ")", path);
  }
  const std::string pid = fmt::format("{}", ::getpid());
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    const int error = errno;
    ::close(fd);
    throw Error(file_error("write", file, error));
  }
  return fd;
}

}  // namespace

RunDir::RunDir(const std::string& path, int64_t min_free_bytes) : path_(path) {
  PARL_CHECK(!path.empty(), "the run directory has no name");
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  std::error_code error;
  fs::create_directories(path_, error);
  if (error || !fs::is_directory(path_)) {
    throw Error(file_error("create the run directory", path_, error ? error.value() : ENOTDIR));
  }
  const fs::space_info space = fs::space(path_, error);
  if (!error && space.available < static_cast<uintmax_t>(min_free_bytes)) {
    raise("the disk of the run directory '{}' is full: {} MiB free, at least {} MiB are needed", path_,
          space.available >> 20, min_free_bytes >> 20);
  }
  lock_ = take_lock(path_);
  try {
    const std::string probe = file(".probe");
    write_file_atomically(probe, std::string(4096, 'x'));
    ::unlink(probe.c_str());
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

RunDir::~RunDir() {
  if (logging_) stop_log_file();
  if (lock_ >= 0) ::close(lock_);
}

RunDir::RunDir(RunDir&& other) noexcept
    : path_(std::move(other.path_)),
      lock_(std::exchange(other.lock_, -1)),
      logging_(std::exchange(other.logging_, false)) {}

RunDir& RunDir::operator=(RunDir&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  std::swap(logging_, other.logging_);
  return *this;
}

void RunDir::save_config(std::string_view json) const { write_file_atomically(config_file(), json); }

void RunDir::start_log() {
  log_to_file(file("log.txt"));
  logging_ = true;
}

}  // namespace parl
