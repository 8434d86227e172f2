// A remote class for the process engine's own tests, described by hand at the engine's seam: these tests need no stubs.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parl/remote/internal/context.h"
#include "parl/remote/internal/process_engine.h"
#include "parl/wire/wire.h"

namespace parl::internal {

// What the object can do; its methods' indices.
enum class Do : uint32_t {
  kAdd,
  kEcho,
  kSleep,
  kThrow,
  kKill,
  kExit,
  kMakeArray,
  kSumArray,
  kBounce,
  kPollStop,
  kPrint,
  kEnvironment,
  kTakeArray,
  kGiveArray,
  kTakeText,
  kGarbage,
  kSpawnChild,
  kCount
};

const ClassInfo& probe_info();
void enter_probe();  // into the factory table; both sides do it by starting

// A call with typed arguments, without a stub.
template <typename R, typename... A>
class ProbeCall final : public Call {
 public:
  ProbeCall(Do method, size_t bytes, A... arguments)
      : Call(&probe_info().methods[static_cast<size_t>(method)], static_cast<uint32_t>(method), bytes),
        arguments_(std::move(arguments)...) {}
  void run(void*) noexcept override {}
  void encode(Writer& writer) override {
    std::apply([&](const auto&... a) { (wire::save(writer, a), ...); }, arguments_);
  }
  void drop_arguments() noexcept override { arguments_ = {}; }
  R take() { return std::move(*value_); }

 protected:
  void decode(Reader& reader) override { value_ = wire::load<R>(reader); }

 private:
  std::tuple<A...> arguments_;
  std::optional<R> value_;
};

class ProbeConstructor final : public ConstructorCall {
 public:
  explicit ProbeConstructor(std::string how) : how_(std::move(how)) {}
  const ConstructorInfo& constructor() const override;
  void* construct() override { return nullptr; }
  void encode(Writer& writer) const override { wire::save(writer, how_); }

 private:
  std::string how_;
};

// A channel with typed calls.
class Probe {
 public:
  Probe() = default;
  explicit Probe(std::shared_ptr<ObjectChannel> channel) : channel_(std::move(channel)) {}

  template <typename R, typename... A>
  Ref<ProbeCall<R, A...>> start(Do method, A... arguments) {
    return start_sized<R>(16, method, std::move(arguments)...);
  }
  template <typename R, typename... A>
  Ref<ProbeCall<R, A...>> start_sized(size_t bytes, Do method, A... arguments) {
    auto call = Ref<ProbeCall<R, A...>>::adopt(new ProbeCall<R, A...>(method, bytes, std::move(arguments)...));
    call->set_channel(channel_);
    EXPECT_TRUE(channel_->submit(CallRef::share(call.get()), kForever));
    return call;
  }
  template <typename R, typename... A>
  R get(Do method, A... arguments) {
    auto call = start<R>(method, std::move(arguments)...);
    channel_->wait(*call, kForever);
    call->settle();
    return call->take();
  }
  ObjectChannel* operator->() const { return channel_.get(); }
  ObjectChannel& channel() const { return *channel_; }

 private:
  std::shared_ptr<ObjectChannel> channel_;
};

// A process engine with settings for tests.
class ProbeEngine {
 public:
  explicit ProbeEngine(Options options = {});
  ~ProbeEngine();
  CreateRequest request(const std::string& how = "", TimePoint deadline = kForever);
  Probe create(const std::string& how = "", TimePoint deadline = kForever) {
    return Probe(engine_->create(request(how, deadline)));
  }
  Engine& engine() { return *engine_; }
  void shut_down(std::chrono::milliseconds timeout) { engine_->shutdown(deadline_in(timeout)); }
  const RemoteStats stats() const { return shared_->stats.read(); }

 private:
  std::shared_ptr<ManagerShared> shared_ = std::make_shared<ManagerShared>();
  std::unique_ptr<Engine> engine_;
  int next_ = 0;
};

}  // namespace parl::internal
