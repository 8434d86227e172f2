#include "parl/models/internal/fused_cnn.h"

#ifdef PARL_HAS_CONV_KERNELS

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "parl/models/internal/fused_cnn_sizes.h"

namespace parl::internal {

FloatBuffer::FloatBuffer(size_t size) : size_(size) {
  constexpr size_t kHuge = size_t{2} << 20;
  const size_t align = size * sizeof(float) >= kHuge ? kHuge : 64;
  const size_t bytes = std::max((size * sizeof(float) + align - 1) / align * align, align);
  data_.reset(static_cast<float*>(std::aligned_alloc(align, bytes)));
  if (!data_) throw std::bad_alloc();
  if (align == kHuge) madvise(data_.get(), bytes, MADV_HUGEPAGE);
  std::memset(data_.get(), 0, bytes);
}

void FloatBuffer::Free::operator()(float* p) const { std::free(p); }

void FloatBuffer::clear() { std::fill_n(data_.get(), size_, 0.0f); }

bool FusedCnn::supports(const Shape& shape) {
  if (shape.layers.size() < 2 || shape.actions > 63) return false;
  for (size_t i = 0; i + 1 < shape.layers.size(); ++i) {
    const FusedConv& conv = shape.layers[i];
    if (conv.out != kLanes && conv.out % (2 * kLanes) != 0) return false;
  }
  return shape.layers.back().out % (4 * kLanes) == 0 && shape.layers.back().padding == 0;
}

FusedCnn::FusedCnn(const Shape& shape) : shape_(shape) {
  int h = shape.height, w = shape.width, c = shape.channels;
  for (size_t i = 0; i + 1 < shape.layers.size(); ++i) {
    const FusedConv& conv = shape.layers[i];
    Layer layer;
    layer.conv = conv;
    layer.in_h = h, layer.in_w = w, layer.in_c = c, layer.pad_w = w + 2 * conv.padding;
    layer.out_h = (h + 2 * conv.padding - conv.kernel_height) / conv.stride + 1;
    layer.out_w = (w + 2 * conv.padding - conv.kernel_width) / conv.stride + 1;
    layer.vectors = conv.out == kLanes ? 1 : 2;
    layer.panels = conv.out / (layer.vectors * kLanes);
    layer.back_vectors = c == kLanes ? 1 : 2;
    layer.back_panels = i ? c / (layer.back_vectors * kLanes) : 0;
    layer.border = i ? (conv.kernel_width + conv.stride - 1) / conv.stride - 1 : 0;
    layer.dy_w = layer.out_w + 2 * layer.border;
    const int next_pad = i + 2 < shape.layers.size() ? shape.layers[i + 1].padding : 0;
    layer.map_row = static_cast<ptrdiff_t>(layer.out_w + 2 * next_pad) * conv.out;
    layer.map_size = static_cast<size_t>(layer.map_row) * static_cast<size_t>(layer.out_h + 2 * next_pad);
    layer.map_origin = next_pad * layer.map_row + next_pad * conv.out;
    const size_t taps = static_cast<size_t>(conv.kernel_height) * conv.kernel_width * c * conv.out;
    layer.weights = FloatBuffer(taps);
    layer.gradient = FloatBuffer(taps);
    if (i) layer.back_weights = FloatBuffer(taps);
    layer.bias = FloatBuffer(static_cast<size_t>(conv.out) * 2);  // the second half: its gradient
    layer.dy = FloatBuffer(static_cast<size_t>(layer.out_h) * layer.dy_w * conv.out);
    layers_.push_back(std::move(layer));
    h = layers_.back().out_h, w = layers_.back().out_w, c = conv.out;
  }
  const Layer& first = layers_.front();
  image_ = FloatBuffer(static_cast<size_t>(first.in_h + 2 * first.conv.padding) * first.pad_w * first.in_c);
  dense_in_ = h * w * c;
  dense_out_ = shape.layers.back().out;
  head_vectors_ = shape.actions + 1 <= 16 ? 1 : shape.actions + 1 <= 32 ? 2 : 4;
  const size_t dense = static_cast<size_t>(dense_in_) * dense_out_, chunk = kChunkRows;
  dense_weights_ = FloatBuffer(dense);
  dense_bias_ = FloatBuffer(static_cast<size_t>(dense_out_));
  head_weights_ = FloatBuffer(static_cast<size_t>(dense_out_) * head_vectors_ * kLanes);
  head_bias_ = FloatBuffer(static_cast<size_t>(head_vectors_) * kLanes);
  head_out_ = FloatBuffer(chunk * head_vectors_ * kLanes);
  for (size_t i = 0; i < layers_.size(); ++i) {
    scratch_.maps.emplace_back(layers_[i].map_size * (i + 1 < layers_.size() ? 1 : chunk));
  }
  scratch_.hidden = FloatBuffer(chunk * dense_out_);
}

void FusedCnn::pack_conv(Layer& layer, const float* weight, const float* bias, float scale) {
  const int taps = layer.conv.kernel_height * layer.conv.kernel_width * layer.in_c, width = layer.vectors * kLanes;
  for (int panel = 0; panel < layer.panels; ++panel) {
    float* to = layer.weights.get() + static_cast<ptrdiff_t>(panel) * taps * width;
    transpose(weight + static_cast<ptrdiff_t>(panel) * width * taps, taps, width, taps, to, width);
  }
  for (size_t i = 0; i < layer.weights.size(); ++i) layer.weights.get()[i] *= scale;
  std::copy_n(bias, layer.conv.out, layer.bias.get());
}

void FusedCnn::pack(const Weights& weights) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    pack_conv(layers_[i], weights.weight[i], weights.bias[i], i == 0 && shape_.bytes ? 1.0f / 255.0f : 1.0f);
    if (i && layers_[i].back_weights.size()) pack_backward(layers_[i], weights.weight[i]);
  }
  constexpr int kWidth = 4 * kLanes;
  float* to = dense_weights_.get();
  for (int k = 0; k < dense_in_; k += kDenseDepth) {
    const int depth = std::min(kDenseDepth, dense_in_ - k);
    for (int panel = 0; panel < dense_out_; panel += kWidth, to += depth * kWidth) {
      transpose(weights.weight.back() + static_cast<ptrdiff_t>(panel) * dense_in_ + k, dense_in_, kWidth, depth, to,
                kWidth);
    }
  }
  std::copy_n(weights.bias.back(), dense_out_, dense_bias_.get());
  if (shape_.actions == 0) return;
  const int width = head_vectors_ * kLanes;
  transpose(weights.policy_weight, dense_out_, shape_.actions, dense_out_, head_weights_.get(), width);
  for (int k = 0; k < dense_out_; ++k) head_weights_.get()[k * width + shape_.actions] = weights.value_weight[k];
  std::copy_n(weights.policy_bias, shape_.actions, head_bias_.get());
  head_bias_.get()[shape_.actions] = *weights.value_bias;
}

void FusedCnn::load_image(const void* obs, int row) {
  const Layer& first = layers_.front();
  const ptrdiff_t line = static_cast<ptrdiff_t>(first.in_w) * first.in_c, size = line * first.in_h;
  float* to = image_.get() + first.conv.padding * (static_cast<ptrdiff_t>(first.pad_w) + 1) * first.in_c;
  for (int y = 0; y < first.in_h; ++y, to += static_cast<ptrdiff_t>(first.pad_w) * first.in_c) {
    if (shape_.bytes) {
      const uint8_t* from = static_cast<const uint8_t*>(obs) + row * size + y * line;
      bytes_to_floats(from, line, to);
    } else {
      std::copy_n(static_cast<const float*>(obs) + row * size + y * line, line, to);
    }
  }
}

void FusedCnn::conv_forward(const Layer& layer, const float* in, float* out) {
  ConvRun run;
  run.spacing = static_cast<ptrdiff_t>(layer.conv.stride) * layer.in_c;
  run.row_stride = static_cast<ptrdiff_t>(layer.pad_w) * layer.in_c;
  run.ky_end = layer.conv.kernel_height;
  run.row_length = layer.conv.kernel_width * layer.in_c;
  run.out_spacing = layer.conv.out;
  run.pixels = layer.out_w;
  const int width = layer.vectors * kLanes;
  for (int panel = 0; panel < layer.panels; ++panel) {
    run.weights = layer.weights.get() + static_cast<ptrdiff_t>(panel) * run.ky_end * run.row_length * width;
    run.bias = layer.bias.get() + panel * width;
    for (int y = 0; y < layer.out_h; ++y) {
      run.in = in + y * layer.conv.stride * run.row_stride;
      run.out = out + layer.map_origin + y * layer.map_row + panel * width;
      conv_forward_run(run, layer.vectors);
    }
  }
}

void FusedCnn::dense_forward(const float* in, int n, float* hidden) {
  constexpr int kWidth = 4 * kLanes;
  for (int i = 0; i < n; ++i)
    std::copy_n(dense_bias_.get(), dense_out_, hidden + static_cast<ptrdiff_t>(i) * dense_out_);
  const float* weights = dense_weights_.get();
  const float* end = weights + dense_weights_.size();
  for (int k = 0; k < dense_in_; k += kDenseDepth) {
    const int depth = std::min(kDenseDepth, dense_in_ - k);
    for (int panel = 0; panel < dense_out_; panel += kWidth) {
      const float* next = weights + depth * kWidth;
      gemm_block(in + k, dense_in_, weights, depth, hidden + panel, dense_out_, n, 4,
                 end - next >= depth * kWidth ? next : nullptr);
      weights = next;
    }
  }
  const ptrdiff_t size = static_cast<ptrdiff_t>(n) * dense_out_;
  for (ptrdiff_t i = 0; i < size; ++i) hidden[i] = hidden[i] < 0 ? 0 : hidden[i];
}

void FusedCnn::heads_forward(const float* hidden, int n, float* logits, float* value) {
  const int width = head_vectors_ * kLanes;
  float* out = head_out_.get();
  for (int i = 0; i < n; ++i) std::copy_n(head_bias_.get(), width, out + i * width);
  gemm_block(hidden, dense_out_, head_weights_.get(), dense_out_, out, width, n, head_vectors_, nullptr);
  for (int i = 0; i < n; ++i) {
    std::copy_n(out + i * width, shape_.actions, logits + i * shape_.actions);
    value[i] = out[i * width + shape_.actions];
  }
}

void FusedCnn::forward(const void* obs, int n, float* logits, float* value, Activations* keep) {
  if (keep && keep->capacity < n) {
    keep->maps.clear();
    for (const Layer& layer : layers_) keep->maps.emplace_back(layer.map_size * static_cast<size_t>(n));
    keep->hidden = FloatBuffer(static_cast<size_t>(n) * dense_out_);
    keep->capacity = n;
  }
  Activations& maps = keep ? *keep : scratch_;
  const size_t last = layers_.size() - 1;
  const int step = chunk_rows(n);
  for (int begin = 0; begin < n; begin += step) {
    const int rows = std::min(step, n - begin), base = keep ? begin : 0;
    for (int row = 0; row < rows; ++row) {
      load_image(obs, begin + row);
      const float* in = image_.get();
      for (size_t i = 0; i <= last; ++i) {
        const size_t at = keep ? static_cast<size_t>(begin + row) : i == last ? static_cast<size_t>(row) : 0;
        float* out = maps.maps[i].get() + at * layers_[i].map_size;
        conv_forward(layers_[i], in, out);
        in = out;
      }
    }
    float* hidden = maps.hidden.get() + static_cast<ptrdiff_t>(base) * dense_out_;
    dense_forward(maps.maps[last].get() + static_cast<ptrdiff_t>(base) * dense_in_, rows, hidden);
    float* out = logits + static_cast<ptrdiff_t>(begin) * outputs();
    if (shape_.actions == 0) {
      std::copy_n(hidden, static_cast<ptrdiff_t>(rows) * dense_out_, out);
    } else {
      heads_forward(hidden, rows, out, value + begin);
    }
  }
}

}  // namespace parl::internal

#endif
