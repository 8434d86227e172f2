#include "parl/env_gym/gym_env.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "parl/env_gym/internal/gym_host.h"

namespace parl {

using internal::GymHost;

struct GymEnv::Impl {
  std::shared_ptr<GymHost> host;
  int slot = -1;
  bool running = false, begun = false;

  void check_place(std::span<std::byte> obs) const {
    PARL_CHECK_EQ(obs.size(), host->spec().observation.bytes(), "'{}' writes observations of this size",
                  host->spec().id);
  }
};

GymEnv::GymEnv(GymOptions options) : GymEnv(std::make_shared<GymHost>(std::move(options), 1)) {}

GymEnv::GymEnv(std::shared_ptr<GymHost> host) : impl_(std::make_unique<Impl>()) {
  impl_->host = std::move(host);
  impl_->slot = impl_->host->enter();
  PARL_CHECK(impl_->slot >= 0, "'{}': the Python process has as many environments as it may", spec().id);
}

GymEnv::~GymEnv() { impl_->host->leave(impl_->slot); }

const EnvSpec& GymEnv::spec() const { return impl_->host->spec(); }

void GymEnv::reset(std::optional<uint64_t> seed, std::span<std::byte> obs) {
  impl_->check_place(obs);
  impl_->running = impl_->begun = false;
  impl_->host->reset(impl_->slot, seed, obs);
  impl_->running = true;
}

void GymEnv::begin_step(const Action& action) {
  PARL_CHECK(impl_->running, "'{}': step() after the end of an episode or before the first reset(); call reset()",
             spec().id);
  check_action(spec(), action);
  impl_->host->begin_step(impl_->slot, action);
  impl_->begun = true;
}

StepResult GymEnv::step(const Action& action, std::span<std::byte> obs) {
  impl_->check_place(obs);
  if (!impl_->begun) begin_step(action);
  impl_->begun = impl_->running = false;  // until it has gone well
  const StepResult result = impl_->host->end_step(impl_->slot, obs);
  impl_->running = !result.done();
  return result;
}

void GymEnv::render(Image& out) { impl_->host->render(impl_->slot, out); }

int GymEnv::pid() const { return impl_->host->pid(); }

struct GymHosts::Impl {
  struct Entry {
    std::thread::id maker;
    int per_process;
    std::weak_ptr<GymHost> host;
  };
  std::mutex mutex;
  std::vector<Entry> entries;
};

GymHosts::GymHosts() : impl_(std::make_unique<Impl>()) {}
GymHosts::~GymHosts() = default;

std::unique_ptr<Env> GymHosts::make(const GymOptions& options, int per_process) {
  const auto maker = std::this_thread::get_id();
  {
    const std::lock_guard lock(impl_->mutex);
    std::erase_if(impl_->entries, [](const Impl::Entry& entry) { return entry.host.expired(); });
    for (const Impl::Entry& entry : impl_->entries) {
      if (entry.maker != maker || entry.per_process != per_process) continue;
      const auto host = entry.host.lock();
      if (host && host->options() == options && host->has_room()) return std::make_unique<GymEnv>(host);
    }
  }
  auto host = std::make_shared<GymHost>(options, per_process);  // takes a while: others need not wait
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->entries.push_back({maker, per_process, host});
  }
  return std::make_unique<GymEnv>(std::move(host));
}

}  // namespace parl
