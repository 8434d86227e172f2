// From palette indices to small grey pictures: the two steps between the emulator's frames and the observation.
//
// grey_max(): grey values of two frames, the larger of each pair. Exactly max(getScreenGrayscale(a), (b)).
// AreaResize: area interpolation to size x size, exact rational weights, rounded to nearest (ties to even): within one
//   level of OpenCV's INTER_AREA, which sums in float. Only shrinks (size <= height and width).
// Neither allocates after construction. Thread rule: one owner thread per AreaResize.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace parl {

void grey_max(const uint8_t* a, const uint8_t* b, const std::array<uint8_t, 256>& table, uint8_t* out, size_t count);
void grey(const uint8_t* a, const std::array<uint8_t, 256>& table, uint8_t* out, size_t count);

class AreaResize {
 public:
  AreaResize(int height, int width, int size);
  // in: height x width; out: size x size.
  void operator()(const uint8_t* in, uint8_t* out);

 private:
  struct Span {
    int first = 0;
    std::vector<int> weights;
  };
  static std::vector<Span> spans(int from, int to);
  void add_rows(const uint8_t* in, const Span& rows);  // the weighted sum of some rows of `in`, into sums_
  void squeeze(uint8_t* out) const;                    // sums_ -> one row of the result

  const int width_, size_;
  std::vector<Span> rows_;
  int taps_ = 0;                       // source columns that a result column may need
  int padded_ = 0;                     // size, rounded up to whole vectors
  float total_ = 1;                    // of all weights of one result
  std::vector<int32_t> first_column_;  // per result column
  std::vector<float> weights_;         // [tap][result column]
  std::vector<uint16_t> row_sums_;
  std::vector<float> sums_;  // row_sums_ as float, with room for whole vectors
};

}  // namespace parl
