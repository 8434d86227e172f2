// Video: pictures into a .gif (written here, exact colours while a picture has at most 256) or an .mp4 (FFmpeg, H.264
// where the library has it).
//
// Owner: one thread. add() blocks for encoding and the disk. Throws parl::Error naming the file; all pictures have the
// size of the first. Until finish() the film is PATH.part; a film that is not finished leaves nothing behind, and what
// was at PATH before stays.
#pragma once

#include <memory>
#include <string>

#include "parl/env/env.h"

namespace parl::cli {

class Video {
 public:
  virtual ~Video() = default;
  virtual void add(const Image& picture, double pictures_per_second) = 0;
  virtual void finish() = 0;
};

// Whether `path` ends as a film's name does.
bool is_video_name(const std::string& path);
// By the ending of `path`.
std::unique_ptr<Video> open_video(const std::string& path);

// Where a film grows, and its way to its own name.
std::string part_of(const std::string& path);
void put_in_place(const std::string& path);

std::unique_ptr<Video> open_gif(const std::string& path);
std::unique_ptr<Video> open_mp4(const std::string& path);  // an error in builds without FFmpeg

}  // namespace parl::cli
