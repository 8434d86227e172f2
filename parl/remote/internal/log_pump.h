// What a worker prints, cut into lines: each goes to the learner's log with the worker's prefix and into the worker's
// own log file, and the last few stay in memory for the error message of a worker that died. Lines longer than kMaxLine
// are cut in pieces. The file (if a directory is given) is rotated: at kMaxFile bytes it becomes <name>.1, replacing
// the older one. A disk that is full loses the file's text, never the worker. Thread rule: one thread feeds (the I/O
// thread); rename() and last_lines() may be called from any.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace parl::internal {

class LogPump {
 public:
  static constexpr size_t kMaxLine = 8192;
  static constexpr size_t kMaxFile = 8u << 20;
  static constexpr size_t kKeptLines = 12;

  // `sink` gets every whole line, prefix included, without a newline. `file` empty: no file.
  LogPump(std::string prefix, std::string file, std::function<void(const std::string&)> sink);

  void feed(std::string_view bytes);
  // Reads what a non-blocking descriptor has, at most `budget` bytes. False: the writer's end is closed.
  bool pump(int fd, size_t budget = 256 << 10);
  // Delivers an unfinished last line.
  void finish();

  // Under another name, into another file, from the next bytes on.
  void rename(std::string prefix, std::string file);
  // The last lines, each with its newline; empty when nothing was printed.
  std::string last_lines() const;

 private:
  void line(std::string_view text);
  void append_to_file(std::string_view bytes);

  const std::function<void(const std::string&)> sink_;
  std::string partial_;
  mutable std::mutex mutex_;  // of all below
  std::string prefix_, file_;
  size_t file_bytes_ = 0;
  std::deque<std::string> kept_;
};

}  // namespace parl::internal
