// What the tests of the tcp engine share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <utility>

#include "parl/core/log.h"
#include "parl/remote/conformance.h"
#include "parl/remote/internal/tcp_test_proxy.h"
#include "parl/remote/internal/tcp_test_worker.h"

namespace parl::internal {

using namespace std::chrono_literals;
using conformance::Counter;
using conformance::eventually;
using conformance::expect_remote_error;
using conformance::Gate;
using conformance::seconds_of;
using conformance::Trouble;
using conformance::Values;
using ::testing::HasSubstr;
using ::testing::Not;

inline constexpr auto kHeartbeat = 1500ms;

inline Options tcp(const std::string& address) {
  Options o;
  o.engine = address;
  o.create_timeout = 20s;
  o.heartbeat_timeout = kHeartbeat;
  return o;
}

// A file that is gone with the test.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& text) { std::ofstream(path) << text; }
  ~TemporaryFile() { ::unlink(path.c_str()); }
  const std::string path = Gate().path();
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

// Runs as_remote on a thread of its own, as another program would.
template <typename T>
std::future<std::string> offer_object(T object, std::string address, std::chrono::nanoseconds patience = 20s) {
  return std::async(std::launch::async, [object = std::move(object), address = std::move(address), patience]() mutable {
    try {
      parl::as_remote(std::move(object), address, patience);
      return std::string("returned");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  });
}

}  // namespace parl::internal
