// Logging through one spdlog logger, to stderr: "[HH:MM:SS I] message". stdout belongs to the program's results.
// Level from PARL_LOG (trace, debug, info, warn, error, off), default info. Thread rule: any thread.
#pragma once

#include <spdlog/spdlog.h>

#include <functional>
#include <memory>
#include <string>

namespace parl {

// The library's logger; made on first use. Users may add sinks to it or replace its level.
spdlog::logger& log();

// Copies everything logged from now on into `path` too (appends). Throws parl::Error when it cannot be opened.
void log_to_file(const std::string& path);

// Called just before each line goes to stderr, by the thread that logs (one at a time): to clear a status line. An
// empty function removes it; when this returns, the old hook is not running any more.
void before_log_line(std::function<void()> hook);

// Stops copying into the file of log_to_file.
void stop_log_file();

}  // namespace parl
