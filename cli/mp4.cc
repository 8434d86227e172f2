#include "cli/video.h"

#ifdef PARL_HAVE_FFMPEG

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libswscale/swscale.h>
}

#include <cmath>
#include <cstdio>

#include "parl/core/files.h"

namespace parl::cli {
namespace {

constexpr int kSmallWidth = 320;  // narrower pictures are doubled

struct Free {
  void operator()(AVFormatContext* c) const {
    if (c->pb) avio_closep(&c->pb);
    avformat_free_context(c);
  }
  void operator()(AVCodecContext* c) const { avcodec_free_context(&c); }
  void operator()(AVFrame* f) const { av_frame_free(&f); }
  void operator()(AVPacket* p) const { av_packet_free(&p); }
  void operator()(SwsContext* s) const { sws_freeContext(s); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

class Mp4 : public Video {
 public:
  explicit Mp4(std::string path) : path_(std::move(path)) {
    av_log_set_level(AV_LOG_ERROR);
    AVFormatContext* format = nullptr;
    check(avformat_alloc_output_context2(&format, nullptr, "mp4", path_.c_str()), "start");
    format_.reset(format);
    check(avio_open(&format_->pb, part_of(path_).c_str(), AVIO_FLAG_WRITE), "write");
  }
  ~Mp4() override {
    if (is_whole_) return;
    format_.reset();
    std::remove(part_of(path_).c_str());
  }

  void add(const Image& picture, double pictures_per_second) override {
    if (!codec_) open(picture, pictures_per_second);
    PARL_CHECK(picture.width == width_ && picture.height == height_, "the pictures of '{}' change their size", path_);
    check(av_frame_make_writable(frame_.get()), "encode");
    const uint8_t* planes[] = {picture.rgb.data()};
    const int strides[] = {3 * width_};
    sws_scale(scale_.get(), planes, strides, 0, height_, frame_->data, frame_->linesize);
    frame_->pts = next_++;
    encode(frame_.get());
  }

  void finish() override {
    PARL_CHECK(codec_ != nullptr, "there were no pictures for '{}'", path_);
    encode(nullptr);
    check(av_write_trailer(format_.get()), "write");
    check(avio_closep(&format_->pb), "write");
    put_in_place(path_);
    is_whole_ = true;
  }

 private:
  void check(int result, const char* what) const {
    if (result >= 0) return;
    constexpr int kMostErrno = 4095;  // FFmpeg's own errors lie far below
    if (result >= -kMostErrno) throw Error(file_error(what, path_, AVUNERROR(result)));
    char text[AV_ERROR_MAX_STRING_SIZE] = {};
    av_strerror(result, text, sizeof text);
    raise("cannot {} '{}': {}", what, path_, text);
  }

  void open(const Image& picture, double pictures_per_second) {
    width_ = picture.width;
    height_ = picture.height;
    const AVCodec* encoder = avcodec_find_encoder(AV_CODEC_ID_H264);
    if (!encoder) encoder = avcodec_find_encoder(AV_CODEC_ID_MPEG4);
    PARL_CHECK(encoder != nullptr, "this FFmpeg encodes neither H.264 nor MPEG-4; use a .gif file");
    codec_.reset(avcodec_alloc_context3(encoder));
    const int factor = width_ < kSmallWidth ? 2 : 1;
    codec_->width = (width_ * factor + 1) / 2 * 2;  // even, as 4:2:0 needs
    codec_->height = (height_ * factor + 1) / 2 * 2;
    codec_->pix_fmt = AV_PIX_FMT_YUV420P;
    codec_->time_base = {1000, static_cast<int>(std::lround(1000 * pictures_per_second))};
    codec_->bit_rate = 2'000'000;
    codec_->thread_count = 1;
    if (format_->oformat->flags & AVFMT_GLOBALHEADER) codec_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    check(avcodec_open2(codec_.get(), encoder, nullptr), "encode");

    stream_ = avformat_new_stream(format_.get(), nullptr);
    PARL_CHECK(stream_ != nullptr, "cannot start '{}': no memory", path_);
    stream_->time_base = codec_->time_base;
    check(avcodec_parameters_from_context(stream_->codecpar, codec_.get()), "start");
    check(avformat_write_header(format_.get(), nullptr), "write");

    scale_.reset(sws_getContext(width_, height_, AV_PIX_FMT_RGB24, codec_->width, codec_->height, codec_->pix_fmt,
                                SWS_POINT, nullptr, nullptr, nullptr));
    frame_.reset(av_frame_alloc());
    frame_->format = codec_->pix_fmt;
    frame_->width = codec_->width;
    frame_->height = codec_->height;
    check(av_frame_get_buffer(frame_.get(), 0), "encode");
    packet_.reset(av_packet_alloc());
  }

  void encode(const AVFrame* frame) {  // nullptr: whatever is left
    check(avcodec_send_frame(codec_.get(), frame), "encode");
    for (;;) {
      const int result = avcodec_receive_packet(codec_.get(), packet_.get());
      if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) return;
      check(result, "encode");
      av_packet_rescale_ts(packet_.get(), codec_->time_base, stream_->time_base);
      packet_->stream_index = stream_->index;
      check(av_interleaved_write_frame(format_.get(), packet_.get()), "write");
    }
  }

  std::string path_;
  bool is_whole_ = false;
  int width_ = 0, height_ = 0;
  int64_t next_ = 0;
  Owned<AVFormatContext> format_;
  Owned<AVCodecContext> codec_;
  AVStream* stream_ = nullptr;  // the format's
  Owned<SwsContext> scale_;
  Owned<AVFrame> frame_;
  Owned<AVPacket> packet_;
};

}  // namespace

std::unique_ptr<Video> open_mp4(const std::string& path) { return std::make_unique<Mp4>(path); }

}  // namespace parl::cli

#else

namespace parl::cli {
std::unique_ptr<Video> open_mp4(const std::string& path) {
  raise(
      "cannot write '{}': this build has no FFmpeg (libavcodec-dev, libavformat-dev, libswscale-dev); use a .gif file",
      path);
}
}  // namespace parl::cli

#endif
