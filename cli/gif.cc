// GIF89a, animated, looped. Each picture stores only the rectangle that changed, with a palette of its own.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <map>
#include <unordered_map>

#include "cli/video.h"
#include "parl/core/files.h"

namespace parl::cli {
namespace {

using Bytes = std::string;

void put16(Bytes& out, int value) {
  out.push_back(static_cast<char>(value & 0xff));
  out.push_back(static_cast<char>(value >> 8 & 0xff));
}

// LZW with growing codes, cut into sub-blocks of at most 255 bytes.
class LzwWriter {
 public:
  explicit LzwWriter(int bits) : root_bits_(std::max(bits, 2)) {}

  Bytes encode(const std::vector<uint8_t>& pixels) {
    out_.push_back(static_cast<char>(root_bits_));
    reset();
    emit(clear_code());
    int prefix = pixels[0];
    for (size_t i = 1; i < pixels.size(); ++i) {
      const uint32_t key = static_cast<uint32_t>(prefix) << 8 | pixels[i];
      if (const auto at = table_.find(key); at != table_.end()) {
        prefix = at->second;
        continue;
      }
      emit(prefix);
      if (next_ == 4096) {
        emit(clear_code());
        reset();
      } else {
        if (next_ == 1 << width_) ++width_;
        table_[key] = next_++;
      }
      prefix = pixels[i];
    }
    emit(prefix);
    if (next_ == 1 << width_ && width_ < 12) ++width_;  // the reader adds an entry for the code before this one
    emit(clear_code() + 1);
    if (bit_count_ > 0) byte(static_cast<uint8_t>(buffer_ & 0xff));
    flush_block();
    out_.push_back('\0');
    return std::move(out_);
  }

 private:
  int clear_code() const { return 1 << root_bits_; }
  void reset() {
    table_.clear();
    next_ = clear_code() + 2;
    width_ = root_bits_ + 1;
  }
  void emit(int code) {
    buffer_ |= static_cast<uint64_t>(code) << bit_count_;
    for (bit_count_ += width_; bit_count_ >= 8; bit_count_ -= 8, buffer_ >>= 8)
      byte(static_cast<uint8_t>(buffer_ & 0xff));
  }
  void byte(uint8_t value) {
    block_.push_back(static_cast<char>(value));
    if (block_.size() == 255) flush_block();
  }
  void flush_block() {
    if (block_.empty()) return;
    out_.push_back(static_cast<char>(block_.size()));
    out_ += block_;
    block_.clear();
  }

  int root_bits_, next_ = 0, width_ = 0, bit_count_ = 0;
  uint64_t buffer_ = 0;
  std::unordered_map<uint32_t, int> table_;
  Bytes block_, out_;
};

struct Rect {
  int x0 = 0, y0 = 0, x1 = 0, y1 = 0;  // x1, y1 are outside
};

uint32_t pixel(const Image& image, int x, int y) {
  const uint8_t* p =
      &image.rgb[3 * (static_cast<size_t>(y) * static_cast<size_t>(image.width) + static_cast<size_t>(x))];
  return static_cast<uint32_t>(p[0]) << 16 | static_cast<uint32_t>(p[1]) << 8 | p[2];
}

Rect changed(const Image& before, const Image& now) {
  Rect r{now.width, now.height, 0, 0};
  for (int y = 0; y < now.height; ++y) {
    for (int x = 0; x < now.width; ++x) {
      if (pixel(before, x, y) == pixel(now, x, y)) continue;
      r = {std::min(r.x0, x), std::min(r.y0, y), std::max(r.x1, x + 1), std::max(r.y1, y + 1)};
    }
  }
  return r.x1 == 0 ? Rect{0, 0, 1, 1} : r;
}

// Palette and indices of a rectangle. More than 256 colours are rounded to 6 x 7 x 6 levels.
void index_colours(const Image& image, const Rect& r, std::vector<uint32_t>& palette, std::vector<uint8_t>& indices) {
  for (const bool rounded : {false, true}) {
    std::unordered_map<uint32_t, uint8_t> known;
    palette.clear();
    indices.clear();
    bool fits = true;
    for (int y = r.y0; y < r.y1 && fits; ++y) {
      for (int x = r.x0; x < r.x1 && fits; ++x) {
        uint32_t colour = pixel(image, x, y);
        if (rounded) {
          const auto level = [](uint32_t c, uint32_t levels) {
            return (c * (levels - 1) + 127) / 255 * 255 / (levels - 1);
          };
          colour = level(colour >> 16, 6) << 16 | level(colour >> 8 & 0xff, 7) << 8 | level(colour & 0xff, 6);
        }
        const auto [at, added] = known.emplace(colour, static_cast<uint8_t>(palette.size()));
        if (added) palette.push_back(colour);
        fits = palette.size() <= 256;
        indices.push_back(at->second);
      }
    }
    if (fits) return;
  }
}

class Gif : public Video {
 public:
  explicit Gif(std::string path) : path_(std::move(path)), file_(std::fopen(part_of(path_).c_str(), "wbe")) {
    if (!file_) throw Error(file_error("write", path_, errno));
  }
  ~Gif() override {
    if (file_) std::fclose(file_);
    if (!is_whole_) std::remove(part_of(path_).c_str());
  }

  void add(const Image& picture, double pictures_per_second) override {
    PARL_CHECK(picture.width > 0 && picture.height > 0, "the environment drew an empty picture");
    if (last_.width == 0) {
      header(picture);
    } else {
      PARL_CHECK(picture.width == last_.width && picture.height == last_.height,
                 "the pictures of '{}' change their size", path_);
    }
    const Rect r = last_.width == 0 ? Rect{0, 0, picture.width, picture.height} : changed(last_, picture);
    frame(picture, r, pictures_per_second);
    last_ = picture;
  }

  void finish() override {
    PARL_CHECK(last_.width > 0, "there were no pictures for '{}'", path_);
    write(";");
    const int result = std::fclose(file_);
    file_ = nullptr;
    if (result != 0) throw Error(file_error("write", path_, errno));
    put_in_place(path_);
    is_whole_ = true;
  }

 private:
  void header(const Image& picture) {
    Bytes out = "GIF89a";
    put16(out, picture.width);
    put16(out, picture.height);
    out += Bytes("\x00\x00\x00", 3);                                  // no palette for all
    out += Bytes("\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00", 19);  // for ever
    write(out);
  }

  void frame(const Image& picture, const Rect& r, double pictures_per_second) {
    index_colours(picture, r, palette_, indices_);
    int bits = 1;
    while (1U << bits < palette_.size()) ++bits;
    // Delays are whole hundredths: their rounding errors are carried on.
    due_ += 100 / pictures_per_second;
    const int delay = std::max(1, static_cast<int>(std::lround(due_ - shown_)));
    shown_ += delay;

    Bytes out("\x21\xf9\x04\x04", 4);  // keep the picture below
    put16(out, delay);
    out += Bytes("\x00\x00\x2c", 3);
    put16(out, r.x0);
    put16(out, r.y0);
    put16(out, r.x1 - r.x0);
    put16(out, r.y1 - r.y0);
    out.push_back(static_cast<char>(0x80 | (bits - 1)));
    palette_.resize(size_t{1} << bits);
    for (const uint32_t colour : palette_) {
      for (const int shift : {16, 8, 0}) out.push_back(static_cast<char>(colour >> shift & 0xff));
    }
    out += LzwWriter(bits).encode(indices_);
    write(out);
  }

  void write(const Bytes& bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size())
      throw Error(file_error("write", path_, errno));
  }

  std::string path_;
  std::FILE* file_;
  bool is_whole_ = false;
  Image last_;
  double due_ = 0;
  int64_t shown_ = 0;
  std::vector<uint32_t> palette_;
  std::vector<uint8_t> indices_;
};

}  // namespace

std::unique_ptr<Video> open_gif(const std::string& path) { return std::make_unique<Gif>(path); }

std::string part_of(const std::string& path) { return path + ".part"; }

void put_in_place(const std::string& path) {
  if (std::rename(part_of(path).c_str(), path.c_str()) != 0) throw Error(file_error("replace", path, errno));
}

bool is_video_name(const std::string& path) { return path.ends_with(".gif") || path.ends_with(".mp4"); }

std::unique_ptr<Video> open_video(const std::string& path) {
  if (path.ends_with(".gif")) return open_gif(path);
  if (path.ends_with(".mp4")) return open_mp4(path);
  raise("cannot tell the kind of film '{}': its name must end with .gif or .mp4", path);
}

}  // namespace parl::cli
