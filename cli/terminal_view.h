// TerminalView: pictures in the terminal, for people. Each character cell shows two pixels, one above the other (the
// upper half block in 24-bit colour), so that 80 columns are 80 pixels and 24 lines 48.
//
// Thread rule: one thread. The cursor is hidden while the object lives, and what stood above stays.
#pragma once

#include <cstdio>
#include <string>

#include "parl/core/clock.h"
#include "parl/env/env.h"

namespace parl::cli {

// The picture as text, at most `columns` wide and `lines` high, its proportions kept (a pixel is as high as wide); area
// averages where it must shrink, whole multiples where it may grow. Lines end with a reset of the colours and "\n".
std::string picture_text(const Image& picture, int columns, int lines);

class TerminalView {
 public:
  // Throws UsageError when `out` is not a terminal.
  explicit TerminalView(std::FILE* out = stdout);
  ~TerminalView();
  TerminalView(const TerminalView&) = delete;
  TerminalView& operator=(const TerminalView&) = delete;

  // Draws over the one before, not sooner than 1 / fps after it.
  void show(const Image& picture, double fps);

 private:
  std::FILE* out_;
  int lines_ = 0;  // of the picture that stands there
  Clock::time_point next_ = Clock::now();
};

}  // namespace parl::cli
