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

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".part") {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) throw Error(file_error("write", path_, errno));
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (fd_ < 0) return;
  ::close(fd_);
  fd_ = -1;
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail(std::string_view verb, int error_number) {
  discard();
  throw Error(file_error(verb, path_, error_number));
}

void AtomicFile::write(const void* data, size_t bytes) {
  PARL_CHECK(fd_ >= 0, "'{}' is finished already", path_);
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = ::write(fd_, static_cast<const char*>(data) + done, bytes - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", errno);
    done += static_cast<size_t>(n);
  }
}

void AtomicFile::commit() {
  PARL_CHECK(fd_ >= 0, "'{}' is finished already", path_);
  if (::fsync(fd_) != 0 && errno != EINVAL) fail("write", errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("replace", errno);
  ::close(fd_);
  fd_ = -1;
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  const int directory = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  ::fsync(directory);  // the rename itself survives a power cut
  ::close(directory);
}

void write_file_atomically(const std::string& path, std::string_view contents) {
  AtomicFile file(path);
  file.write(contents.data(), contents.size());
  file.commit();
}

}  // namespace parl
