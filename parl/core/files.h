// Whole files, read and replaced safely.
//
// Thread rule: any thread; two writers of one path at a time are the caller's mistake. Blocks for the disk.
// Throws parl::Error that names path and reason; a full disk is called by that name.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace parl {

std::string read_file(const std::string& path);

// The file at `path` is the old one or the whole new one, never a part: written beside it, flushed to disk, renamed.
void write_file_atomically(const std::string& path, std::string_view contents);

// The same piece by piece, for what should not stand in memory as a whole. One that goes without commit() leaves
// nothing.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void write(const void* data, size_t bytes);
  void commit();

 private:
  [[noreturn]] void fail(std::string_view verb, int error_number);
  void discard();

  std::string path_, temporary_;
  int fd_ = -1;
};

// "cannot <verb> '<path>': No space left on device (the disk is full: ...)" for the errno of a failed call.
std::string file_error(std::string_view verb, const std::string& path, int error_number);

}  // namespace parl
