#include "parl/wire/array.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "parl/core/check.h"
#include "parl/wire/array_pool.h"

namespace parl {
namespace {

TEST(Array, IsZeroedAndShaped) {
  Array a = Array::of<float>({2, 3, 4});
  EXPECT_EQ(a.size(), 24);
  EXPECT_EQ(a.ndim(), 3);
  EXPECT_EQ(a.dim(-1), 4);
  EXPECT_EQ(a.bytes(), 96u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
  for (float v : a.span<float>()) EXPECT_EQ(v, 0.0f);
  EXPECT_THROW(a.dim(3), Error);
  EXPECT_THROW(a.data<double>(), Error);
}

TEST(Array, ZeroDimensionalAndEmptyShapes) {
  Array scalar = Array::of<int64_t>({});
  EXPECT_EQ(scalar.size(), 1);
  scalar.data<int64_t>()[0] = 7;
  EXPECT_EQ(Array(scalar).data<int64_t>()[0], 7);
  Array none = Array::of<float>({3, 0, 5});
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.bytes(), 0u);
  EXPECT_EQ(Array(none).shape(), (Shape{3, 0, 5}));
}

TEST(Array, RefusesImpossibleShapes) {
  EXPECT_THROW(Array::of<float>({-1}), Error);
  EXPECT_THROW(Array::of<double>({int64_t{1} << 31, int64_t{1} << 31, 8}), Error);
  EXPECT_THROW(shape_size({std::numeric_limits<int64_t>::max()}, DType::kI16), Error);
}

TEST(Array, CopiesAreDeepAndMovesKeepTheMemory) {
  Array a = Array::from<int32_t>({1, 2, 3});
  Array b = a;
  b.data<int32_t>()[0] = 9;
  EXPECT_EQ(a.data<int32_t>()[0], 1);
  const std::byte* where = a.data();
  Array c = std::move(a);
  EXPECT_EQ(c.data(), where);
  EXPECT_EQ(a.size(), 0);  // NOLINT: the moved-from state is defined
  b = c;
  EXPECT_EQ(b, c);
  Array d = std::move(c).reshape({3, 1});
  EXPECT_EQ(d.data(), where);
  EXPECT_THROW(std::move(d).reshape({2}), Error);
}

TEST(ArrayPool, ReusesReturnedMemory) {
  ArrayPool pool(1 << 20);
  const ArrayAllocatorScope scope(&pool);
  const std::byte* where = nullptr;
  {
    Array a = Array::empty(DType::kF32, {100000});
    where = a.data();
    Array small = Array::empty(DType::kU8, {64});
    EXPECT_EQ(small.block().owner(), nullptr);
  }
  EXPECT_GE(pool.kept_bytes(), 400000u);
  Array b = Array::empty(DType::kF32, {99000});
  EXPECT_EQ(b.data(), where);
  EXPECT_EQ(pool.reused(), 1u);
  Array wasteful = Array::empty(DType::kU8, {70000});  // a quarter of waste at most
  EXPECT_EQ(pool.reused(), 1u);
}

TEST(ArrayPool, IsBoundedAndTakesBackFromOtherThreadsAndAfterItsEnd) {
  Array survivor;
  {
    ArrayPool pool(600000);
    const ArrayAllocatorScope scope(&pool);
    for (int i = 0; i < 4; ++i) {
      Array a = Array::empty(DType::kU8, {200000 + 100000 * (i % 2)});
      std::thread([b = std::move(a)]() mutable { Array gone = std::move(b); }).join();
      EXPECT_LE(pool.kept_bytes(), 600000u);
    }
    EXPECT_GT(pool.reused(), 0u);
    survivor = Array::of<uint8_t>({300000});
  }
  survivor.data<uint8_t>()[299999] = 3;
  EXPECT_EQ(ArrayAllocatorScope::current(), nullptr);
  survivor = Array();
}

}  // namespace
}  // namespace parl
