#include "parl/remote/internal/io_loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <future>
#include <vector>

namespace parl::internal {
namespace {

using namespace std::chrono_literals;

TEST(IoLoop, ManyBusyDescriptorsDoNotHoldUpDeadlines) {
  std::vector<UniqueFd> busy;
  IoLoop loop;
  for (int i = 0; i < 300; ++i) {  // more than one round reports
    busy.emplace_back(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
    ASSERT_TRUE(busy.back());
    loop.watch(busy.back().get(), EPOLLIN, [](uint32_t) {});  // never read
  }
  std::promise<void> due;
  loop.at(std::chrono::steady_clock::now(), [&] { due.set_value(); });
  EXPECT_EQ(due.get_future().wait_for(20s), std::future_status::ready);
}

}  // namespace
}  // namespace parl::internal
