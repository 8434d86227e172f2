#include "parl/remote/internal/slab.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cstring>
#include <thread>
#include <vector>

#include "parl/core/check.h"

namespace parl::internal {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct Pair {
  explicit Pair(size_t limit = 4 * kMiB, size_t first = kMiB) : pool(limit, first) {}
  // The peer's view of the slab that holds the next block.
  std::shared_ptr<Slab> peer_view() {
    auto fresh = pool.take_new();
    EXPECT_EQ(fresh.size(), 1u);
    return Slab::open(fresh.at(0)->take_fd());
  }
  SlabPool pool;
};

TEST(Slab, ABlockTravelsAndItsPlaceComesBack) {
  Pair pair;
  ArrayBlock block = pair.pool.allocate(100000);
  ASSERT_TRUE(block);
  auto view = pair.peer_view();
  std::memset(block.data(), 7, 100000);
  EXPECT_GE(pair.pool.used_bytes(), 100000u);
  auto own = pair.pool.find(0);
  const std::byte* first_place = block.data();
  const size_t offset = own->depart(std::move(block));
  EXPECT_FALSE(block);
  {
    const ArrayBlock arrived = view->arrive(offset, 100000);
    ASSERT_TRUE(arrived);
    EXPECT_NE(arrived.data(), first_place) << "another mapping";
    EXPECT_EQ(arrived.data()[99999], std::byte{7}) << "of the same memory";
    EXPECT_GE(pair.pool.used_bytes(), 100000u) << "the reader still has it";
  }
  EXPECT_EQ(pair.pool.used_bytes(), 0u);
  EXPECT_EQ(pair.pool.allocate(100000).data(), first_place) << "used again";
  EXPECT_EQ(pair.pool.refused(), 0u);
}

TEST(Slab, NothingButTheStartOfATravellingBlockIsAccepted) {
  Pair pair;
  ArrayBlock block = pair.pool.allocate(100000);
  auto view = pair.peer_view();
  EXPECT_FALSE(view->arrive(0, 100000)) << "held, not sent";
  const size_t offset = pair.pool.find(0)->depart(std::move(block));
  EXPECT_FALSE(view->arrive(offset + 1, 10)) << "no page start";
  EXPECT_FALSE(view->arrive(offset + Slab::kPage, 10)) << "inside the block";
  EXPECT_FALSE(view->arrive(offset, 2 * kMiB)) << "past the end";
  EXPECT_FALSE(view->arrive(uint64_t{1} << 62, 100000)) << "outside";
  EXPECT_FALSE(view->arrive(offset, ~uint64_t{0})) << "overflow";
  const ArrayBlock first = view->arrive(offset, 100000);
  EXPECT_TRUE(first);
  EXPECT_FALSE(view->arrive(offset, 100000)) << "twice";
}

TEST(Slab, GrowsToItsLimitAndThenRefuses) {
  Pair pair(4 * kMiB, kMiB);
  std::vector<ArrayBlock> blocks;
  while (ArrayBlock block = pair.pool.allocate(300000)) blocks.push_back(std::move(block));
  EXPECT_EQ(pair.pool.refused(), 1u);
  EXPECT_LE(pair.pool.reserved_bytes(), 4 * kMiB);
  EXPECT_GT(pair.pool.used_bytes(), 3 * kMiB);
  EXPECT_GT(pair.pool.take_new().size(), 1u) << "several slabs";
  for (size_t i = 0; i < blocks.size(); ++i) std::memset(blocks[i].data(), static_cast<int>(i), 300000);
  for (size_t i = 0; i < blocks.size(); ++i) EXPECT_EQ(blocks[i].data()[299999], static_cast<std::byte>(i));
  blocks.clear();
  EXPECT_EQ(pair.pool.used_bytes(), 0u);
  EXPECT_TRUE(pair.pool.allocate(kMiB)) << "neighbours have grown together again";
  EXPECT_FALSE(pair.pool.allocate(5 * kMiB)) << "larger than the limit";
}

TEST(Slab, BlocksOutliveThePool) {
  ArrayBlock block;
  {
    SlabPool pool(4 * kMiB, kMiB);
    block = pool.allocate(200000);
    std::memset(block.data(), 3, 200000);
  }
  EXPECT_EQ(block.data()[1000], std::byte{3});
}

TEST(Slab, ArraysLieInItWhileAScopeIsOpen) {
  SlabPool pool(4 * kMiB, kMiB);
  {
    const ArrayAllocatorScope scope(&pool);
    const Array large = Array::empty(DType::kF32, {100000});
    const Array small = Array::empty(DType::kF32, {100});
    auto slab = pool.find(0);
    ASSERT_TRUE(slab);
    EXPECT_TRUE(slab->contains(large.data()));
    EXPECT_FALSE(slab->contains(small.data()));
  }
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST(Slab, IsSealedAgainstShrinking) {
  auto slab = Slab::create(1, kMiB);
  ASSERT_TRUE(slab);
  const UniqueFd fd = slab->take_fd();
  EXPECT_NE(::ftruncate(fd.get(), 4096), 0);
}

TEST(Slab, ForeignDescriptorsAreRefused) {
  EXPECT_THROW(Slab::open(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC))), Error);
  EXPECT_THROW(Slab::open(UniqueFd()), Error);
  UniqueFd unsealed(::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), kMiB), 0);
  EXPECT_THROW(Slab::open(std::move(unsealed)), Error);
  UniqueFd sealed(::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(sealed.get(), kMiB), 0);
  ASSERT_EQ(::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_THROW(Slab::open(std::move(sealed)), Error) << "zeros are no header";
}

TEST(Slab, AnotherProcessReadsInPlaceAndGivesBack) {
  Pair pair;
  ArrayBlock block = pair.pool.allocate(200000);
  auto fresh = pair.pool.take_new();
  UniqueFd fd = fresh.at(0)->take_fd();
  std::memset(block.data(), 5, 200000);
  const size_t offset = pair.pool.find(0)->depart(std::move(block));
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = false;
    {
      auto view = Slab::open(std::move(fd));
      const ArrayBlock arrived = view->arrive(offset, 200000);
      good = arrived && arrived.data()[199999] == std::byte{5};
    }
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pair.pool.used_bytes(), 0u) << "its destructor gave the block back";
}

TEST(Slab, BlocksComeBackFromOtherThreads) {
  SlabPool pool(4 * kMiB, 4 * kMiB);
  for (int round = 0; round < 200; ++round) {
    ArrayBlock a = pool.allocate(500000), b = pool.allocate(500000);
    ASSERT_TRUE(a);
    ASSERT_TRUE(b);
    std::jthread other([block = std::move(a)]() mutable { block = {}; });
    b = {};
  }
  EXPECT_EQ(pool.refused(), 0u);
  EXPECT_EQ(pool.used_bytes(), 0u);
}

}  // namespace
}  // namespace parl::internal
