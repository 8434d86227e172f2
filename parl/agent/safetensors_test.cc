#include "parl/agent/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "parl/core/error_of.h"
#include "parl/core/files.h"

namespace parl {
namespace {

using ::testing::HasSubstr;

struct File {
  std::string path = ::testing::TempDir() + "parl_safetensors_" + std::to_string(getpid());
  ~File() { std::filesystem::remove(path); }
};

TEST(Safetensors, PiecesAreWrittenAsOneArray) {
  const File file;
  const std::vector<float> a = {1, 2, 3, 4}, b = {5, 6};
  const std::vector<int64_t> n = {7};
  save_safetensors(file.path,
                   std::vector<SafetensorsEntry>{
                       {"ab", DType::kF32, {3, 2}, {std::as_bytes(std::span(a)), std::as_bytes(std::span(b))}},
                       {"n", DType::kI64, {1}, {std::as_bytes(std::span(n))}},
                       {"none", DType::kF32, {0, 2}, {}}},
                   {{"steps", "5"}});
  SafetensorsMetadata metadata;
  const Weights read = load_safetensors(file.path, &metadata);
  EXPECT_EQ(metadata.at("steps"), "5");
  ASSERT_EQ(read.entries.size(), 3u);
  EXPECT_TRUE(read.entries[0].array == Array::from<float>(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}));
  // The same bytes as from whole arrays.
  const std::string bytes = read_file(file.path);
  save_safetensors(file.path, read, metadata);
  EXPECT_EQ(read_file(file.path), bytes);
}

TEST(Safetensors, ArraysAreReadOneByOne) {
  const File file;
  save_safetensors(file.path, Weights{{{"x", Array::from<float>({1, 2})}, {"y", Array::from<double>({3})}}});
  SafetensorsFile reader(file.path);
  EXPECT_TRUE(reader.contains("y"));
  EXPECT_FALSE(reader.contains("z"));
  EXPECT_EQ(reader.shape("x"), Shape{2});
  double y = 0;
  reader.read("y", std::as_writable_bytes(std::span(&y, 1)));
  EXPECT_EQ(y, 3);
  EXPECT_THAT(error_of([&] { reader.read("x", std::as_writable_bytes(std::span(&y, 0))); }), HasSubstr("size"));
  EXPECT_THAT(error_of([&] { reader.shape("z"); }), HasSubstr("holds no 'z'"));
}

TEST(Safetensors, WhatDoesNotFitIsRefused) {
  const File file;
  const float x = 1;
  const SafetensorsEntry entry{"x", DType::kF32, {2}, {std::as_bytes(std::span(&x, 1))}};
  EXPECT_THAT(error_of([&] { save_safetensors(file.path, std::vector<SafetensorsEntry>{entry}); }), HasSubstr("shape"));
  EXPECT_FALSE(std::filesystem::exists(file.path));
  save_safetensors(file.path, Weights{{{"x", Array::from<float>({1, 2})}}});
  const std::string bytes = read_file(file.path);
  write_file_atomically(file.path, std::string_view(bytes).substr(0, bytes.size() - 1));
  EXPECT_THAT(error_of([&] { load_safetensors(file.path); }), HasSubstr("outside the file"));
}

}  // namespace
}  // namespace parl
