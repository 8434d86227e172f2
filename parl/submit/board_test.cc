#include "parl/submit/board.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "parl/core/files.h"

namespace parl::submit {
namespace {

TEST(Board, SumsUpStatesAsRanges) {
  std::vector<std::string> lines;
  Board board(6, "", false, [&](const std::string& line) { lines.push_back(line); });
  EXPECT_EQ(board.summary(), "workers: 6 pending (0-5)");
  for (const int running : {0, 1, 2, 4}) board.set(running, WorkerState::kRunning, "host");
  board.set(5, WorkerState::kFailed, "bad", "no such program");
  EXPECT_EQ(board.summary(), "workers: 4 running (0-2,4), 1 pending (3), 1 failed (5)");
  EXPECT_EQ(board.count(WorkerState::kRunning), 4);
  EXPECT_EQ(lines, (std::vector<std::string>{"[submit] worker 5 on bad failed: no such program"}));
}

TEST(Board, ShowsASummaryOnceForEachChange) {
  std::vector<std::string> lines;
  Board board(1, "", false, [&](const std::string& line) { lines.push_back(line); });
  board.show(true);
  board.show(true);
  board.set(0, WorkerState::kRunning);
  board.show();  // within the same second
  EXPECT_EQ(lines.size(), 1u);
  board.show(true);
  EXPECT_EQ(lines, (std::vector<std::string>{"[submit] workers: 1 pending (0)", "[submit] workers: 1 running (0)"}));
}

TEST(Board, LinesBearTheirWorkerAndGoToItsFile) {
  const std::string folder = testing::TempDir() + "parl-board-" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  std::vector<std::string> lines;
  const auto print = [&](const std::string& line) { lines.push_back(line); };
  Board board(2, folder, false, print);
  board.set(1, WorkerState::kRunning, "hostb");
  board.line(1, "hello");
  EXPECT_EQ(lines.back(), "[worker 1 hostb] hello");
  Board quiet(2, folder, true, print);
  quiet.line(1, "again");
  EXPECT_EQ(lines.size(), 1u);
  EXPECT_EQ(read_file(folder + "/worker-1.log"), "hello\nagain\n");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace parl::submit
