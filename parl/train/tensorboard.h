// EventFile: scalars in TensorBoard's own format, without TensorBoard or protobuf.
//
// The file is a sequence of TFRecords (length, its masked CRC-32C, data, its masked CRC-32C), each data an `Event`
// protobuf message, encoded here by hand: wall_time = 1 (double), step = 2 (varint), file_version = 3, summary = 5,
// session_log = 7. One file per command in `folder`; TensorBoard reads all of them as one run. A continued run
// announces its first step, and TensorBoard then forgets what earlier files had from that step on. Owner: one thread.
// Writes block for the disk (buffered until flush). Throws parl::Error naming file and cause.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace parl {

class EventFile {
 public:
  // Makes `folder` and a new file in it. first_step > 0: events at or after it in older files are void.
  explicit EventFile(const std::string& folder, int64_t first_step = 0);

  // A tag "group/name" appears under its group. wall_time: seconds since 1970; negative: now.
  void scalar(const std::string& tag, int64_t step, double value, double wall_time = -1);
  void flush();
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void record(const std::string& event);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

// CRC-32C (Castagnoli), as TFRecords use it.
uint32_t crc32c(std::string_view data);

}  // namespace parl
