// Array: dtype, shape and contiguous row-major elements. A value: copies are deep, moves move the storage.
//
// Memory is 64-byte aligned. Where it comes from is decided by the thread that makes the array: small ones from malloc,
// those above kArrayPoolThreshold from the thread's ArrayAllocator, if one is installed (array_pool.h); the storage
// finds its own way back, from any thread, also when the allocator is gone. So one type serves malloc, recycled memory
// and shared memory.
// Thread rule: like a vector; distinct arrays may be used from distinct threads.
// Throws parl::Error for a wrong dtype or an impossible shape, std::bad_alloc without memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "parl/core/dtype.h"

namespace parl {

using Shape = std::vector<int64_t>;

inline constexpr size_t kArrayPoolThreshold = 64 * 1024;
inline constexpr size_t kArrayAlignment = 64;

// Takes back what it gave out. release() is called once per block, from any thread.
class ArrayOwner {
 public:
  virtual ~ArrayOwner() = default;
  virtual void release(std::byte* data, size_t capacity) noexcept = 0;
};

// Sole owner of a piece of memory. Without an owner the memory is malloc's.
class ArrayBlock {
 public:
  ArrayBlock() = default;
  ArrayBlock(std::byte* data, size_t capacity, std::shared_ptr<ArrayOwner> owner)
      : data_(data), capacity_(capacity), owner_(std::move(owner)) {}
  ArrayBlock(ArrayBlock&& other) noexcept { swap(other); }
  ArrayBlock& operator=(ArrayBlock&& other) noexcept {
    ArrayBlock(std::move(other)).swap(*this);
    return *this;
  }
  ~ArrayBlock();

  // Uninitialised memory by the calling thread's allocator, or malloc.
  static ArrayBlock allocate(size_t bytes);
  // Uninitialised memory from malloc.
  static ArrayBlock from_malloc(size_t bytes);

  std::byte* data() const { return data_; }
  size_t capacity() const { return capacity_; }
  ArrayOwner* owner() const { return owner_.get(); }
  explicit operator bool() const { return data_ != nullptr; }
  // Lets go of the memory without giving it back: the caller has it now (free(), when there was no owner).
  std::byte* leave() noexcept {
    owner_.reset();
    capacity_ = 0;
    return std::exchange(data_, nullptr);
  }
  void swap(ArrayBlock& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    owner_.swap(other.owner_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t capacity_ = 0;
  std::shared_ptr<ArrayOwner> owner_;
};

class Array {
 public:
  Array() : shape_{0} {}
  // Zeroed.
  Array(DType dtype, Shape shape);
  // Uninitialised: the caller writes every element.
  static Array empty(DType dtype, Shape shape);
  template <typename T>
  static Array of(Shape shape) {
    return Array(dtype_of<T>(), std::move(shape));
  }
  template <typename T>
  static Array from(std::span<const T> values, Shape shape) {
    return copy_from(dtype_of<T>(), std::move(shape), values.data(), values.size_bytes());
  }
  template <typename T>
  static Array from(std::initializer_list<T> values) {
    return from<T>(std::span<const T>(values.begin(), values.size()), {static_cast<int64_t>(values.size())});
  }
  // Takes over `block`, which holds the elements.
  static Array adopt(DType dtype, Shape shape, ArrayBlock block);

  Array(const Array& other);
  Array& operator=(const Array& other);
  Array(Array&& other) noexcept;
  Array& operator=(Array&& other) noexcept;
  ~Array() = default;

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t ndim() const { return static_cast<int64_t>(shape_.size()); }
  // Negative i counts from the end.
  int64_t dim(int64_t i) const;
  int64_t size() const { return size_; }  // elements; 1 for a zero-dimensional array
  size_t bytes() const { return static_cast<size_t>(size_) * dtype_size(dtype_); }

  std::byte* data() { return block_.data(); }
  const std::byte* data() const { return block_.data(); }
  template <typename T>
  T* data() {
    check_dtype(dtype_of<T>());
    return reinterpret_cast<T*>(block_.data());
  }
  template <typename T>
  const T* data() const {
    check_dtype(dtype_of<T>());
    return reinterpret_cast<const T*>(block_.data());
  }
  template <typename T>
  std::span<T> span() {
    return {data<T>(), static_cast<size_t>(size_)};
  }
  template <typename T>
  std::span<const T> span() const {
    return {data<T>(), static_cast<size_t>(size_)};
  }

  Array copy() const { return Array(*this); }
  // The same elements under another shape of equal size.
  Array reshape(Shape shape) &&;

  const ArrayBlock& block() const { return block_; }
  // Gives the memory away; the array is empty afterwards.
  ArrayBlock release_block() &&;

  // Equal dtype, shape and bytes (so NaN equals itself, and 0.0 differs from -0.0).
  friend bool operator==(const Array& a, const Array& b);

 private:
  struct Uninitialised {};
  Array(Uninitialised, DType dtype, Shape shape);
  static Array copy_from(DType dtype, Shape shape, const void* data, size_t bytes);
  void check_dtype(DType wanted) const;
  void clear() noexcept;

  DType dtype_ = DType::kF32;
  Shape shape_;
  int64_t size_ = 0;
  ArrayBlock block_;
};

// Elements of a shape. Throws parl::Error for a negative dimension or when the bytes would not fit in 63 bits.
int64_t shape_size(const Shape& shape, DType dtype);

}  // namespace parl
