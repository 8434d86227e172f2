#include "parl/train/learners.h"

#include <torch/torch.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <optional>
#include <thread>

#include "parl/core/check.h"
#include "parl/core/log.h"

namespace parl {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

int64_t number(const std::string& text, const char* what) {
  int64_t value = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  PARL_CHECK(error == std::errc() && at == text.data() + text.size() && value >= 0, "{} is '{}', expected a number",
             what, text);
  return value;
}

// torchrun keeps the meeting place itself, unless it is told not to.
bool torchrun_serves() { return variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True"; }

struct HostPort {
  std::string host;
  int port = 0;
};

HostPort split(const std::string& address) {
  const size_t colon = address.rfind(':');
  PARL_CHECK(colon != std::string::npos && colon > 0, "--learner-address is '{}', expected host:port", address);
  HostPort out{address.substr(0, colon), 0};
  if (out.host.front() == '[' && out.host.back() == ']') out.host = out.host.substr(1, out.host.size() - 2);  // IPv6
  const int64_t port = number(address.substr(colon + 1), "the port of --learner-address");
  PARL_CHECK(port > 0 && port < 65536, "--learner-address is '{}': the port is not 1 to 65535", address);
  out.port = static_cast<int>(port);
  return out;
}

// Learners on one machine cannot listen at the same place.
std::string own_engine(const std::string& engine, int64_t rank) {
  if (engine.starts_with("unix:")) return fmt::format("{}-{}", engine, rank);
  const size_t colon = engine.rfind(':');
  if (!engine.starts_with("tcp://") || colon <= 5) return engine;
  const int64_t port = number(engine.substr(colon + 1), "the port of --engine");
  return fmt::format("{}:{}", engine.substr(0, colon), port == 0 ? 0 : port + rank);
}

LearnerGroup::Options group_options(const TrainConfig& config) {
  LearnerGroup::Options options;
  options.rank = static_cast<int>(config.rank());
  options.size = static_cast<int>(config.learners);
  options.timeout = config.learner_timeout;
  options.device = device_of(config);
  if (config.learner_rank >= 0) {
    const HostPort address = split(config.learner_address);
    options.host = address.host;
    options.port = address.port;
    options.serve = !torchrun_serves();
  }
  return options;
}

// The other learners of a command that starts them all.
class Others {
 public:
  Others(const TrainConfig& config, const std::string& address) : manager_("process") {
    if (config.learner_rank >= 0) return;
    start(config);
    for (size_t i = 0; i < learners_.size(); ++i) {
      TrainConfig own = config;
      own.learner_rank = static_cast<int64_t>(i) + 1;
      own.learner_address = address;
      own.engine = own_engine(config.engine, own.learner_rank);
      if (config.device != "cpu") own.device = "cuda:0";  // it sees no other
      runs_.push_back(learners_[i].async()->run(config_to_json(config_fields(own))));
    }
  }
  ~Others() { manager_.close(std::chrono::seconds(1)); }  // those that have not ended by now hang
  // Throws what one that has ended with an error ended with.
  void check() {
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].valid() && runs_[i].ready()) get(i);
    }
  }
  void wait() {
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].valid()) get(i);
    }
  }
  // Why the others ended, where it was their own fault. Waits a little: whoever broke the group is ending just now.
  std::string reasons() {
    std::string out;
    for (size_t i = 0; i < runs_.size(); ++i) {
      try {
        if (runs_[i].valid() && runs_[i].wait_for(std::chrono::seconds(1))) get(i);
      } catch (const Error& error) {
        const std::string text = error.what();
        if (text.find("noticed by learner") == std::string::npos) out += (out.empty() ? "" : "; ") + text;
      }
    }
    return out;
  }

 private:
  void start(const TrainConfig& config) {
    const auto count = static_cast<int>(config.learners - 1);
    if (config.device == "cpu") {
      learners_ = manager_.create_all<LearnerProcess>(count);
      return;
    }
    const size_t colon = config.device.find(':');
    const bool one_each = config.device == "cuda:*";
    const int given = one_each || colon == std::string::npos
                          ? 0
                          : static_cast<int>(number(config.device.substr(colon + 1), "the number of --device"));
    for (int rank = 1; rank <= count; ++rank) {
      const Place place{.gpus = {one_each ? rank : given}, .share_gpus = !one_each};
      learners_.push_back(manager_.create<LearnerProcess>(place));
    }
  }
  void get(size_t i) {
    try {
      runs_[i].get();
    } catch (const RemoteError& error) {
      raise("learner {}: {}", i + 1, error.message());
    }
  }
  RemoteManager manager_;
  std::vector<Remote<LearnerProcess>> learners_;
  std::vector<Future<void>> runs_;
};

}  // namespace

TrainConfig with_learner_place(TrainConfig config) {
  const auto rank = variable("RANK"), size = variable("WORLD_SIZE"), host = variable("MASTER_ADDR"),
             port = variable("MASTER_PORT");
  if (config.learner_rank < 0 && rank && size && host && port && number(*size, "WORLD_SIZE") > 1) {
    const int64_t learners = number(*size, "WORLD_SIZE");
    PARL_CHECK(config.learners == 1 || config.learners == learners,
               "--learners is {}, but the environment (torchrun's WORLD_SIZE) says {}", config.learners, learners);
    config.learners = learners;
    config.learner_rank = number(*rank, "RANK");
    config.learner_address = fmt::format("{}:{}", *host, *port);
  }
  return config;
}

std::string device_of(const TrainConfig& config) {
  if (config.device != "cuda:*") return config.device;
  const auto local = variable("LOCAL_RANK");
  const int64_t index = local && config.learner_rank >= 0 ? number(*local, "LOCAL_RANK") : config.rank();
  const int64_t count = torch::cuda::is_available() ? static_cast<int64_t>(torch::cuda::device_count()) : 1;
  return fmt::format("cuda:{}", index % count);
}

std::string directory_of(const TrainConfig& c) {
  return c.rank() == 0 ? c.run : fmt::format("{}/learner-{}", c.run, c.rank());
}

std::string saved_settings(TrainConfig config) {
  config.learner_rank = -1;
  config.learner_address.clear();
  return config_to_json(config_fields(config));
}

TrainSummary train_with_others(
    const TrainConfig& config, const TrainHooks& hooks,
    const std::function<TrainSummary(const TrainConfig&, std::shared_ptr<LearnerGroup>)>& train_one) {
  PARL_CHECK(LearnerGroup::available(),
             "this program was built with a libtorch without c10d and Gloo: --learners must be 1");
  const auto group = std::make_shared<LearnerGroup>(group_options(config));
  log().info("learner {} of {}: waiting for the others{}", group->rank(), group->size(),
             config.learner_rank >= 0 ? " at " + config.learner_address : "");
  Others others(config, fmt::format("127.0.0.1:{}", group->port()));
  try {
    group->join([&] {
      others.check();
      PARL_CHECK(!hooks.stop || !*hooks.stop, "stopped while waiting for the other learners");
    });
    TrainSummary summary = train_one(config, group);
    others.wait();
    return summary;
  } catch (const LearnerLost&) {
    const std::string reasons = others.reasons();
    if (reasons.empty()) throw;
    throw LearnerLost(reasons);
  } catch (const std::exception& error) {
    group->leave(error.what());
    throw;
  }
}

void LearnerProcess::run(const std::string& settings) {
  std::exception_ptr failure;
  // On a thread of its own: a remote object's may not create others, for fear of waiting for itself.
  std::thread learner([&] {
    try {
      TrainHooks hooks;
      hooks.show_status = false;
      train(train_config_of(settings, "learner 0"), hooks);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  learner.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace parl
