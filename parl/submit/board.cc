#include "parl/submit/board.h"

#include <cstdio>
#include <fstream>

#include "parl/core/check.h"

namespace parl::submit {
namespace {

constexpr std::array kStates = {WorkerState::kRunning, WorkerState::kPending, WorkerState::kEnded,
                                WorkerState::kFailed};

const char* name_of(WorkerState state) {
  switch (state) {
    case WorkerState::kPending:
      return "pending";
    case WorkerState::kRunning:
      return "running";
    case WorkerState::kEnded:
      return "ended";
    case WorkerState::kFailed:
      return "failed";
  }
  return "?";
}

void print_to_stderr(const std::string& line) {
  const std::string text = line + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

// 0 1 2 5 -> "0-2,5"
std::string ranges(const std::vector<int>& numbers) {
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    out += (out.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (end > i) out += "-" + std::to_string(numbers[end]);
    i = end + 1;
  }
  return out;
}

}  // namespace

Board::Board(int workers, std::string directory, bool is_quiet, Print print)
    : workers_(static_cast<size_t>(workers)),
      directory_(std::move(directory)),
      is_quiet_(is_quiet),
      print_(print ? std::move(print) : print_to_stderr) {}

void Board::set(int worker, WorkerState state, const std::string& where, const std::string& why) {
  Worker& w = workers_.at(static_cast<size_t>(worker));
  w.state = state;
  if (!where.empty()) w.where = where;
  if (!why.empty())
    say(fmt::format("worker {}{}{} {}: {}", worker, w.where.empty() ? "" : " on ", w.where, name_of(state), why));
}

void Board::line(int worker, std::string_view text) {
  const std::string& where = workers_.at(static_cast<size_t>(worker)).where;
  if (!is_quiet_) print_(fmt::format("[worker {}{}{}] {}", worker, where.empty() ? "" : " ", where, text));
  if (directory_.empty()) return;
  std::ofstream file(fmt::format("{}/worker-{}.log", directory_, worker), std::ios::app);
  file << text << '\n';  // a disk that is full loses the text, not the run
}

void Board::say(const std::string& text) { print_("[submit] " + text); }

int Board::count(WorkerState state) const {
  int n = 0;
  for (const Worker& worker : workers_) n += worker.state == state ? 1 : 0;
  return n;
}

std::string Board::summary() const {
  std::string out;
  for (const WorkerState state : kStates) {
    std::vector<int> numbers;
    for (int i = 0; i < size(); ++i) {
      if (this->state(i) == state) numbers.push_back(i);
    }
    if (!numbers.empty())
      out += fmt::format("{}{} {} ({})", out.empty() ? "" : ", ", numbers.size(), name_of(state), ranges(numbers));
  }
  return "workers: " + out;
}

void Board::show(bool now) {
  const auto time = std::chrono::steady_clock::now();
  if (!now && time - shown_at_ < std::chrono::seconds(1)) return;
  const std::string text = summary();
  if (text == shown_) return;
  shown_ = text;
  shown_at_ = time;
  say(text);
}

}  // namespace parl::submit
