#include "parl/core/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "parl/core/check.h"
#include "parl/core/error_of.h"

namespace {
using parl::error_of;
using testing::HasSubstr;

TEST(Files, WrittenThenReadBackAndReplaced) {
  const std::string path = testing::TempDir() + "parl_files_test.bin";
  const std::string binary("a\0b\n\xff", 5);
  parl::write_file_atomically(path, binary);
  EXPECT_EQ(parl::read_file(path), binary);
  parl::write_file_atomically(path, "second");
  EXPECT_EQ(parl::read_file(path), "second");
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  std::filesystem::remove(path);
}

TEST(Files, PiecesAppearTogetherOrNotAtAll) {
  const std::string path = testing::TempDir() + "parl_files_pieces.bin";
  {
    parl::AtomicFile file(path);
    file.write("one", 3);
    file.write("two", 3);
    EXPECT_FALSE(std::filesystem::exists(path));
    file.commit();
    EXPECT_THROW(file.write("x", 1), parl::Error);
  }
  EXPECT_EQ(parl::read_file(path), "onetwo");
  parl::AtomicFile(path).write("half", 4);
  EXPECT_EQ(parl::read_file(path), "onetwo");
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  std::filesystem::remove(path);
}

TEST(Files, ErrorsNamePathAndReason) {
  EXPECT_THAT(error_of([] { parl::read_file("/nowhere/x"); }), HasSubstr("cannot read '/nowhere/x': No such file"));
  EXPECT_THAT(error_of([] { parl::read_file("/tmp"); }), HasSubstr("cannot read '/tmp'"));
  EXPECT_THAT(error_of([] { parl::write_file_atomically("/nowhere/x", ""); }), HasSubstr("cannot write '/nowhere/x'"));
  EXPECT_THAT(parl::file_error("write", "p", ENOSPC), HasSubstr("the disk is full"));
}

// /dev/full refuses every write with ENOSPC: the old file must stay.
TEST(Files, AFullDiskLeavesTheOldFile) {
  const std::string folder = testing::TempDir() + "parl_files_full";
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/model";
  parl::write_file_atomically(path, "good");
  std::filesystem::remove(path + ".part");
  std::filesystem::create_symlink("/dev/full", path + ".part");
  EXPECT_THAT(error_of([&] { parl::write_file_atomically(path, "new contents"); }), HasSubstr("the disk is full"));
  EXPECT_EQ(parl::read_file(path), "good");
  std::filesystem::remove_all(folder);
}
}  // namespace
