#include "parl/core/log.h"

#include <spdlog/cfg/helpers.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <mutex>

#include "parl/core/check.h"

namespace parl {
namespace {

// The first sink: runs the hook, prints nothing.
class HookSink : public spdlog::sinks::sink {
 public:
  void set_hook(std::function<void()> hook) {
    const std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
  }
  void log(const spdlog::details::log_msg&) override {
    const std::lock_guard lock(mutex_);
    if (hook_) hook_();
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

 private:
  std::mutex mutex_;
  std::function<void()> hook_;
};

struct Logger {
  std::shared_ptr<spdlog::sinks::dist_sink_mt> sinks = std::make_shared<spdlog::sinks::dist_sink_mt>();
  std::shared_ptr<spdlog::logger> logger = std::make_shared<spdlog::logger>("parl", sinks);
  std::mutex file_mutex;  // runs of one process may begin and end at the same time
  std::shared_ptr<spdlog::sinks::sink> file;
  std::shared_ptr<HookSink> hook = std::make_shared<HookSink>();

  Logger() {
    sinks->add_sink(hook);
    sinks->add_sink(std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    logger->set_pattern("[%H:%M:%S %^%L%$] %v");
    const char* level = std::getenv("PARL_LOG");
    logger->set_level(level ? spdlog::level::from_str(level) : spdlog::level::info);
    logger->flush_on(spdlog::level::info);
  }
};

Logger& state() {
  static Logger* logger = new Logger;  // never destroyed: threads may log while the program ends
  return *logger;
}

}  // namespace

spdlog::logger& log() { return *state().logger; }

namespace {

// With the file's mutex held.
void stop_file(Logger& logger) {
  if (!logger.file) return;
  logger.file->flush();
  logger.sinks->remove_sink(logger.file);
  logger.file.reset();
}

}  // namespace

void log_to_file(const std::string& path) {
  Logger& logger = state();
  const std::lock_guard lock(logger.file_mutex);
  stop_file(logger);
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, false);
    sink->set_pattern("[%Y-%m-%d %H:%M:%S.%e %L] %v");
    logger.file = sink;
    logger.sinks->add_sink(sink);
  } catch (const spdlog::spdlog_ex& error) {
    raise("cannot write the log file '{}': {}", path, error.what());
  }
}

void before_log_line(std::function<void()> hook) { state().hook->set_hook(std::move(hook)); }

void stop_log_file() {
  Logger& logger = state();
  const std::lock_guard lock(logger.file_mutex);
  stop_file(logger);
}

}  // namespace parl
