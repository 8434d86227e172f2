#include "parl/core/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "parl/core/check.h"

namespace parl {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail_and_remove(std::string_view verb, const std::string& path, const std::string& temporary) {
  const int error = errno;
  ::unlink(temporary.c_str());
  throw Error(file_error(verb, path, error));
}

}  // namespace

std::string file_error(std::string_view verb, const std::string& path, int error_number) {
  std::string hint;
  if (error_number == ENOSPC || error_number == EDQUOT)
    hint = " (the disk is full: free some space, then run the same command again)";
  if (error_number == EROFS) hint = " (the file system is read-only)";
  if (error_number == EACCES || error_number == EPERM)
    hint = " (no permission: choose another place, or change its rights)";
  return fmt::format("cannot {} '{}': {}{}", verb, path, std::strerror(error_number), hint);
}

std::string read_file(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path)) throw Error(file_error("read", path, errno ? errno : EISDIR));
  std::ostringstream out;
  out << in.rdbuf();
  if (in.bad()) throw Error(file_error("read", path, errno ? errno : EIO));
  return std::move(out).str();
}

void write_file_atomically(const std::string& path, std::string_view contents) {
  const std::string temporary = path + ".part";
  {
    const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0) throw Error(file_error("write", path, errno));
    for (size_t done = 0; done < contents.size();) {
      const ssize_t n = ::write(file.get(), contents.data() + done, contents.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_and_remove("write", path, temporary);
      done += static_cast<size_t>(n);
    }
    if (::fsync(file.get()) != 0 && errno != EINVAL) fail_and_remove("write", path, temporary);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) fail_and_remove("replace", path, temporary);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Descriptor directory(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) ::fsync(directory.get());  // the rename itself survives a power cut
}

}  // namespace parl
