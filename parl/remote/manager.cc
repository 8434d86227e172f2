#include "parl/remote/manager.h"

#include "parl/core/log.h"

namespace parl {
namespace {

Options with_engine(const std::string& engine) {
  Options options;
  options.engine = engine;
  return options;
}

Options from_argv(int& argc, char** argv) {
  if (!internal::initialised()) init(argc, argv);
  return {};
}

}  // namespace

RemoteManager::RemoteManager() : RemoteManager(Options{}) {}
RemoteManager::RemoteManager(int& argc, char** argv) : RemoteManager(from_argv(argc, argv)) {}
RemoteManager::RemoteManager(const std::string& engine) : RemoteManager(with_engine(engine)) {}
RemoteManager::RemoteManager(Options options) : core_(std::make_shared<internal::ManagerCore>(std::move(options))) {}

RemoteManager::~RemoteManager() {
  if (core_->forked()) {
    new std::shared_ptr<internal::ManagerCore>(std::move(core_));  // the parent's; nothing of it works here
    return;
  }
  try {
    core_->shutdown(core_->options().shutdown_timeout);
  } catch (const std::exception& e) {
    log().error("ending a manager: {}", e.what());
  }
}

void RemoteManager::close(std::chrono::nanoseconds timeout) { core_->shutdown(timeout); }

}  // namespace parl
