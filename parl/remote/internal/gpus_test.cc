// GPUs as numbers: found, chosen, handed out. No GPU is needed. On objects: conformance_calls_test.cc.
#include "parl/remote/internal/gpus.h"

#include "parl/remote/internal/tcp_test.h"

namespace parl::internal {
namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

TEST(Gpus, FoundAsCudaReadsItsVariable) {
  const TestVariable some(kVisible, "3, 1");
  EXPECT_EQ(find_gpus("").ids, (std::vector<int>{3, 1}));
  EXPECT_EQ(find_gpus("auto").devices_of({1, 3}), (std::vector<int>{1, 0}));
  EXPECT_EQ(find_gpus("1").devices, (std::vector<int>{1})) << "the second that this process sees";
  EXPECT_TRUE(find_gpus("none").ids.empty());
  EXPECT_THROW(find_gpus("2"), Error) << "not visible";
  for (const char* wrong : {"1,", "one", "-1", "1,1", "1;3"}) EXPECT_THROW(find_gpus(wrong), Error) << wrong;
  const TestVariable cut(kVisible, "2,-1,3");
  EXPECT_EQ(find_gpus("").ids, std::vector<int>{2});
  const TestVariable none(kVisible, "");
  EXPECT_TRUE(find_gpus("").ids.empty());
}

TEST(Gpus, NamesAreCountedAndPassedOn) {
  const TestVariable some(kVisible, "GPU-aa,MIG-bb");
  const Gpus gpus = find_gpus("");
  EXPECT_EQ(gpus.ids, (std::vector<int>{0, 1}));
  EXPECT_EQ(gpus.visible({1}), "MIG-bb");
  EXPECT_THROW(gpus.visible({2}), Error);
}

TEST(GpuBook, MachinesHaveEachTheirOwn) {
  const auto book = std::make_shared<GpuBook>();
  const GpuWish zero(Place{.gpus = {0}});
  const auto here = book->try_take("here", {0, 1}, zero);
  ASSERT_TRUE(here);
  EXPECT_FALSE(book->try_take("here", {0, 1}, zero)) << "also by another worker of that machine";
  EXPECT_TRUE(book->try_take("there", {0, 1}, zero));
}

TEST(GpuBook, WhatCanNeverBeIsRefusedAtOnce) {
  const auto book = std::make_shared<GpuBook>();
  const auto error = expect_remote_error(RemoteErrorKind::kRefused,
                                         [&] { book->take("here", {0}, GpuWish(Place{.gpu_count = 2}), kForever); });
  EXPECT_THAT(error.message(), HasSubstr("2 GPUs asked for, and this program has GPU 0"));
}

TEST(GpuBook, ItsEndWakesThoseWhoWait) {
  const auto book = std::make_shared<GpuBook>();
  const GpuWish one(Place{.gpu_count = 1});
  const auto lease = book->take("here", {0}, one, kForever);
  auto waiting = std::async(std::launch::async, [&] { book->take("here", {0}, one, kForever); });
  book->close();
  expect_remote_error(RemoteErrorKind::kClosed, [&] { waiting.get(); });
}

TEST(Gpus, AWorkerSeesWhatItOffersAndNoMore) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  const TestWorker worker(manager.engine(), 2, {{kVisible, "2,5,9"}}, {"--gpus", "5,9"});
  auto first = manager.create<Trouble>(Place{.gpus = {9}});
  EXPECT_EQ(first->environment(kVisible), "5,9");
  EXPECT_EQ(first->where().gpus, std::vector<int>{9});
  EXPECT_EQ(first->where().devices, std::vector<int>{1});
  const auto error = expect_remote_error(RemoteErrorKind::kRefused,
                                         [&] { manager.create<Trouble>(Place{.gpus = {2}, .timeout = 50ms}); });
  EXPECT_THAT(error.message(), HasSubstr("GPU 2 asked for"));
}

TEST(Gpus, TwoWorkersOfAMachineShareItsGpus) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  const TestWorker one(manager.engine(), 1, {}, {"--gpus", "0,1"}), two(manager.engine(), 1, {}, {"--gpus=0,1"});
  ASSERT_TRUE(eventually([&] { return manager.slots().total == 2; }, 20s));
  auto left = manager.create<Trouble>(Place{.gpu_count = 1}), right = manager.create<Trouble>(Place{.gpu_count = 1});
  EXPECT_NE(left.pid(), right.pid());
  EXPECT_NE(left->where().gpus, right->where().gpus);
}

TEST(Gpus, AreFreeAgainWhenTheirWorkerDies) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  const TestWorker one(manager.engine(), 1, {}, {"--gpus", "0"});
  auto first = manager.create<Trouble>(Place{.gpu_count = 1});
  const TestWorker two(manager.engine(), 1, {}, {"--gpus", "0"});
  one.signal(SIGKILL);
  auto second = manager.create<Trouble>(Place{.gpu_count = 1});  // waits for it
  EXPECT_EQ(second->where().gpus, std::vector<int>{0});
  EXPECT_EQ(second.pid(), two.pid());
}

}  // namespace
}  // namespace parl::internal
