#include "parl/remote/internal/log_pump.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "parl/remote/internal/unique_fd.h"

namespace parl::internal {

LogPump::LogPump(std::string prefix, std::string file, std::function<void(const std::string&)> sink)
    : sink_(std::move(sink)) {
  rename(std::move(prefix), std::move(file));
}

void LogPump::rename(std::string prefix, std::string file) {
  struct stat info {};
  const bool is_there = !file.empty() && ::stat(file.c_str(), &info) == 0;
  std::lock_guard lock(mutex_);
  prefix_ = std::move(prefix);
  file_ = std::move(file);
  file_bytes_ = is_there ? static_cast<size_t>(info.st_size) : 0;
}

void LogPump::feed(std::string_view bytes) {
  append_to_file(bytes);
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const size_t room = kMaxLine - partial_.size();
    const size_t length = std::min(newline, bytes.size());
    if (length > room) {  // no newline in sight: deliver a piece
      partial_.append(bytes.substr(0, room));
      bytes.remove_prefix(room);
    } else {
      partial_.append(bytes.substr(0, length));
      bytes.remove_prefix(std::min(bytes.size(), length + 1));
      if (newline == std::string_view::npos) return;
    }
    line(partial_);
    partial_.clear();
  }
}

bool LogPump::pump(int fd, size_t budget) {
  char buffer[16384];
  while (budget > 0) {
    const ssize_t got = ::read(fd, buffer, std::min(sizeof buffer, budget));
    if (got > 0) {
      feed({buffer, static_cast<size_t>(got)});
      budget -= static_cast<size_t>(got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    } else if (errno == EAGAIN) {
      return true;
    }
  }
  return true;
}

void LogPump::finish() {
  if (!partial_.empty()) line(partial_);
  partial_.clear();
}

void LogPump::line(std::string_view text) {
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  std::string whole;
  {
    std::lock_guard lock(mutex_);
    kept_.emplace_back(text);
    if (kept_.size() > kKeptLines) kept_.pop_front();
    whole = prefix_ + std::string(text);
  }
  if (sink_) sink_(whole);
}

std::string LogPump::last_lines() const {
  std::lock_guard lock(mutex_);
  std::string result;
  for (const auto& text : kept_) result += text + "\n";
  return result;
}

// Opened for each piece: a thousand idle logs then cost no descriptors.
void LogPump::append_to_file(std::string_view bytes) {
  std::lock_guard lock(mutex_);
  if (file_.empty()) return;
  if (file_bytes_ > 0 && file_bytes_ + bytes.size() > kMaxFile) {
    if (std::rename(file_.c_str(), (file_ + ".1").c_str()) != 0) return;
    file_bytes_ = 0;
  }
  if (file_bytes_ == 0) {  // the first words: the directory may not be there yet
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(file_).parent_path(), ignored);
  }
  UniqueFd fd(::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (fd && ::write(fd.get(), bytes.data(), bytes.size()) > 0) file_bytes_ += bytes.size();
}

}  // namespace parl::internal
