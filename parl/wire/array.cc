#include "parl/wire/array.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "parl/core/check.h"
#include "parl/wire/array_pool.h"

namespace parl {
namespace {

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace

int64_t shape_size(const Shape& shape, DType dtype) {
  const int64_t limit = std::numeric_limits<int64_t>::max() / static_cast<int64_t>(dtype_size(dtype));
  bool is_empty = false;
  for (int64_t extent : shape) {
    PARL_CHECK(extent >= 0, "an array's shape {} has a negative dimension", shape_text(shape));
    is_empty |= extent == 0;
  }
  if (is_empty) return 0;
  int64_t size = 1;
  for (int64_t extent : shape) {
    PARL_CHECK(size <= limit / extent, "an array of shape {} and type {} is larger than any memory", shape_text(shape),
               dtype_name(dtype));
    size *= extent;
  }
  return size;
}

ArrayBlock::~ArrayBlock() {
  if (!data_) return;
  if (owner_) {
    owner_->release(data_, capacity_);
  } else {
    std::free(data_);
  }
}

ArrayBlock ArrayBlock::from_malloc(size_t bytes) {
  if (bytes > std::numeric_limits<size_t>::max() - kArrayAlignment) throw std::bad_alloc();
  const size_t rounded = (bytes + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
  void* data = std::aligned_alloc(kArrayAlignment, rounded);
  if (!data) throw std::bad_alloc();
  return ArrayBlock(static_cast<std::byte*>(data), rounded, nullptr);
}

ArrayBlock ArrayBlock::allocate(size_t bytes) {
  if (bytes == 0) return {};
  if (bytes > kArrayPoolThreshold) {
    if (ArrayAllocator* allocator = ArrayAllocatorScope::current()) {
      if (ArrayBlock block = allocator->allocate(bytes)) return block;
    }
  }
  return from_malloc(bytes);
}

Array::Array(Uninitialised, DType dtype, Shape shape)
    : dtype_(dtype),
      shape_(std::move(shape)),
      size_(shape_size(shape_, dtype)),
      block_(ArrayBlock::allocate(bytes())) {}

Array::Array(DType dtype, Shape shape) : Array(Uninitialised{}, dtype, std::move(shape)) {
  if (block_) std::memset(block_.data(), 0, bytes());
}

Array Array::empty(DType dtype, Shape shape) { return Array(Uninitialised{}, dtype, std::move(shape)); }

Array Array::copy_from(DType dtype, Shape shape, const void* data, size_t bytes) {
  Array out(Uninitialised{}, dtype, std::move(shape));
  PARL_CHECK(bytes == out.bytes(), "shape {} needs {} bytes, but {} were given", shape_text(out.shape_), out.bytes(),
             bytes);
  if (bytes) std::memcpy(out.data(), data, bytes);
  return out;
}

Array Array::adopt(DType dtype, Shape shape, ArrayBlock block) {
  Array out;
  out.dtype_ = dtype;
  out.size_ = shape_size(shape, dtype);
  out.shape_ = std::move(shape);
  PARL_CHECK(block.capacity() >= out.bytes(), "a block of {} bytes cannot hold shape {} of {}", block.capacity(),
             shape_text(out.shape_), dtype_name(dtype));
  out.block_ = std::move(block);
  return out;
}

Array::Array(const Array& other) : Array(Uninitialised{}, other.dtype_, other.shape_) {
  if (block_) std::memcpy(block_.data(), other.data(), bytes());
}

Array& Array::operator=(const Array& other) {
  if (this == &other) return *this;
  if (block_ && block_.capacity() >= other.bytes() && block_.capacity() / 2 <= other.bytes()) {  // reuse the memory
    shape_ = other.shape_;
    dtype_ = other.dtype_;
    size_ = other.size_;
    if (bytes()) std::memcpy(block_.data(), other.data(), bytes());
    return *this;
  }
  return *this = Array(other);
}

Array::Array(Array&& other) noexcept
    : dtype_(other.dtype_), shape_(std::move(other.shape_)), size_(other.size_), block_(std::move(other.block_)) {
  other.clear();
}

Array& Array::operator=(Array&& other) noexcept {
  if (this == &other) return *this;
  dtype_ = other.dtype_;
  shape_ = std::move(other.shape_);
  size_ = other.size_;
  block_ = std::move(other.block_);
  other.clear();
  return *this;
}

// A moved-from array has no elements and no dimensions left that claim some; assigning {0} could throw.
void Array::clear() noexcept {
  size_ = 0;
  shape_.clear();
  block_ = {};
}

int64_t Array::dim(int64_t i) const {
  const int64_t index = i < 0 ? i + ndim() : i;
  PARL_CHECK(index >= 0 && index < ndim(), "an array of {} dimensions has no dimension {}", ndim(), i);
  return shape_[static_cast<size_t>(index)];
}

Array Array::reshape(Shape shape) && {
  PARL_CHECK(shape_size(shape, dtype_) == size_, "an array of shape {} cannot become {}", shape_text(shape_),
             shape_text(shape));
  Array out(std::move(*this));
  out.shape_ = std::move(shape);
  return out;
}

ArrayBlock Array::release_block() && {
  ArrayBlock out = std::move(block_);
  clear();
  return out;
}

void Array::check_dtype(DType wanted) const {
  PARL_CHECK(dtype_ == wanted, "this array holds {}, not {}", dtype_name(dtype_), dtype_name(wanted));
}

bool operator==(const Array& a, const Array& b) {
  return a.dtype_ == b.dtype_ && a.shape_ == b.shape_ && a.size_ == b.size_ &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

}  // namespace parl
