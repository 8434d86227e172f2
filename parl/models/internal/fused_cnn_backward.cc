#include "parl/models/internal/fused_cnn.h"

#ifdef PARL_HAS_CONV_KERNELS

#include <algorithm>
#include <cstring>

#include "parl/models/internal/fused_cnn_sizes.h"

namespace parl::internal {

// Input pixels fall into stride x stride classes by their remainder; the gradient of each class is a convolution of
// stride 1 over dy with every stride-th tap, in reverse order. Packed class after class: [taps y][taps x * out][panel's
// inputs].
void FusedCnn::pack_backward(Layer& layer, const float* weight) {
  const FusedConv& conv = layer.conv;
  const int width = layer.back_vectors * kLanes;
  float* to = layer.back_weights.get();
  for (int py = 0; py < conv.stride; ++py) {
    for (int px = 0; px < conv.stride; ++px) {
      const int ny = (conv.kernel_height - py + conv.stride - 1) / conv.stride;
      const int nx = (conv.kernel_width - px + conv.stride - 1) / conv.stride;
      for (int panel = 0; panel < layer.back_panels; ++panel) {
        for (int j = ny - 1; j >= 0; --j) {
          for (int i = nx - 1; i >= 0; --i) {
            const int ky = py + conv.stride * j, kx = px + conv.stride * i;
            for (int oc = 0; oc < conv.out; ++oc, to += width) {
              const ptrdiff_t tap = (static_cast<ptrdiff_t>(oc) * conv.kernel_height + ky) * conv.kernel_width + kx;
              std::copy_n(weight + tap * layer.in_c + panel * width, width, to);
            }
          }
        }
      }
    }
  }
}

void FusedCnn::input_gradient(const Layer& layer, Layer& below, const float* mask_map) {
  const FusedConv& conv = layer.conv;
  const int s = conv.stride, width = layer.back_vectors * kLanes;
  ConvRun run;
  run.spacing = conv.out;
  run.row_stride = static_cast<ptrdiff_t>(layer.dy_w) * conv.out;
  run.out_spacing = static_cast<ptrdiff_t>(s) * layer.in_c;
  const float* weights = layer.back_weights.get();
  for (int py = 0; py < s; ++py) {
    for (int px = 0; px < s; ++px) {
      const int ny = (conv.kernel_height - py + s - 1) / s, nx = (conv.kernel_width - px + s - 1) / s;
      run.row_length = nx * conv.out;
      const int n0 = (std::max(0, conv.padding - px) + s - 1) / s;
      const int n1 = (conv.padding + layer.in_w - px + s - 1) / s;  // exclusive
      for (int panel = 0; panel < layer.back_panels;
           ++panel, weights += static_cast<ptrdiff_t>(ny) * run.row_length * width) {
        run.weights = weights;
        for (int m = (std::max(0, conv.padding - py) + s - 1) / s; s * m + py < conv.padding + layer.in_h; ++m) {
          const int y = s * m + py - conv.padding, x = s * n0 + px - conv.padding, top = m - (ny - 1);
          run.ky_begin = std::max(0, -top);
          run.ky_end = std::min(ny, layer.out_h - top);
          run.pixels = n1 - n0;
          run.in =
              layer.dy.get() + top * run.row_stride + static_cast<ptrdiff_t>(n0 - (nx - 1) + layer.border) * conv.out;
          const ptrdiff_t channel = static_cast<ptrdiff_t>(x) * layer.in_c + panel * width;
          run.out = below.dy.get() + (static_cast<ptrdiff_t>(y) * below.dy_w + below.border) * layer.in_c + channel;
          run.mask = mask_map + below.map_origin + y * below.map_row + channel;
          conv_backward_run(run, layer.back_vectors);
        }
      }
    }
  }
}

void FusedCnn::weight_gradient(Layer& layer, const float* in) {
  const FusedConv& conv = layer.conv;
  const int width = layer.vectors * kLanes;
  ConvWeightGradient strip;
  strip.spacing = static_cast<ptrdiff_t>(conv.stride) * layer.in_c;
  strip.row_stride = static_cast<ptrdiff_t>(layer.pad_w) * layer.in_c;
  strip.out_row_step = conv.stride * strip.row_stride;
  strip.kernel_height = conv.kernel_height;
  strip.row_length = conv.kernel_width * layer.in_c;
  strip.dy_spacing = conv.out;
  strip.dy_row_stride = static_cast<ptrdiff_t>(layer.dy_w) * conv.out;
  strip.pixels = layer.out_w;
  const int bytes = static_cast<int>(strip.out_row_step + strip.dy_row_stride) * 4;
  const int rows = std::clamp(kStripBytes / bytes, 1, layer.out_h);
  const float* dy = layer.dy.get() + static_cast<ptrdiff_t>(layer.border) * conv.out;
  for (int y = 0; y < layer.out_h; y += rows) {
    strip.rows = std::min(rows, layer.out_h - y);
    strip.in = in + y * strip.out_row_step;
    for (int panel = 0; panel < layer.panels; ++panel) {
      strip.dy = dy + y * strip.dy_row_stride + panel * width;
      strip.gradient =
          layer.gradient.get() + static_cast<ptrdiff_t>(panel) * strip.kernel_height * strip.row_length * width;
      conv_weight_gradient(strip, layer.vectors);
    }
  }
  channel_sums(dy, conv.out, strip.dy_row_stride, layer.out_h, layer.out_w, conv.out, layer.bias.get() + conv.out);
}

void FusedCnn::conv_backward(const void* obs, int row, int chunk_row, const Activations& kept) {
  Layer& top = layers_.back();
  const size_t last = layers_.size() - 1, at = static_cast<size_t>(row);
  const float* map = kept.maps[last].get() + at * top.map_size;
  const float* dx = dx_.get() + static_cast<ptrdiff_t>(chunk_row) * dense_in_;
  const int line = top.out_w * top.conv.out;
  for (int y = 0; y < top.out_h; ++y) {
    float* to = top.dy.get() + (static_cast<ptrdiff_t>(y) * top.dy_w + top.border) * top.conv.out;
    for (int i = 0; i < line; ++i) to[i] = map[y * line + i] > 0 ? dx[y * line + i] : 0;
  }
  for (size_t i = last; i > 0; --i) {
    const float* in = kept.maps[i - 1].get() + at * layers_[i - 1].map_size;
    weight_gradient(layers_[i], in);
    input_gradient(layers_[i], layers_[i - 1], in);
  }
  load_image(obs, row);
  weight_gradient(layers_[0], image_.get());
}

void FusedCnn::heads_backward(int n, const float* hidden, const float* logits_gradient, const float* value_gradient,
                              const Weights& weights, const Gradients& gradients) {
  const int h = dense_out_, actions = shape_.actions;
  for (int i = 0; i < n; ++i) {
    float* __restrict dh = dh_.get() + static_cast<ptrdiff_t>(i) * h;
    const float* __restrict x = hidden + static_cast<ptrdiff_t>(i) * h;
    std::fill_n(dh, h, 0.0f);
    bool live = false;
    for (int a = 0; a <= actions; ++a) {
      const float d = a < actions ? logits_gradient[i * actions + a] : value_gradient[i];
      if (d == 0) continue;
      live = true;
      const float* __restrict w =
          a < actions ? weights.policy_weight + static_cast<ptrdiff_t>(a) * h : weights.value_weight;
      float* __restrict g =
          a < actions ? gradients.policy_weight + static_cast<ptrdiff_t>(a) * h : gradients.value_weight;
      *(a < actions ? gradients.policy_bias + a : gradients.value_bias) += d;
      for (int k = 0; k < h; ++k) {
        dh[k] += d * w[k];
        g[k] += d * x[k];
      }
    }
    for (int k = 0; k < h; ++k) dh[k] = x[k] > 0 ? dh[k] : 0;
    live_[static_cast<size_t>(i)] = live;
    for (int k = 0; k < h; ++k) gradients.bias.back()[k] += dh[k];
  }
}

void FusedCnn::features_backward(int n, const float* hidden, const float* gradient, const Gradients& gradients) {
  const int h = dense_out_;
  for (int i = 0; i < n; ++i) {
    float* __restrict dh = dh_.get() + static_cast<ptrdiff_t>(i) * h;
    const float* __restrict x = hidden + static_cast<ptrdiff_t>(i) * h;
    const float* __restrict d = gradient + static_cast<ptrdiff_t>(i) * h;
    float* __restrict bias = gradients.bias.back();
    for (int k = 0; k < h; ++k) {
      dh[k] = x[k] > 0 ? d[k] : 0;
      bias[k] += dh[k];
    }
    live_[static_cast<size_t>(i)] = std::any_of(dh, dh + h, [](float g) { return g != 0; });
  }
}

// gradient[oc][k] += sum over n of dh[n][oc] * in[n][k]: blocks of kOuterDepth rows, strips of 32 inputs.
void FusedCnn::dense_weight_gradient(int n, const float* in, float* gradient) {
  constexpr int kWidth = 2 * kLanes;
  for (int begin = 0; begin < n; begin += kOuterDepth) {
    const int depth = std::min(kOuterDepth, n - begin);
    for (int oc = 0; oc < dense_out_; oc += 8) {
      float* to = pack_a_.get() + static_cast<ptrdiff_t>(oc) * depth;
      const float* from = dh_.get() + static_cast<ptrdiff_t>(begin) * dense_out_ + oc;
      for (int i = 0; i < depth; ++i) {
        std::memcpy(to + i * 8, from + static_cast<ptrdiff_t>(i) * dense_out_, 8 * sizeof(float));
      }
    }
    for (int k = 0; k < dense_in_; k += kWidth) {
      const float* from = in + static_cast<ptrdiff_t>(begin) * dense_in_ + k;
      float* to = pack_b_.get();
      for (int i = 0; i < depth; ++i) {
        std::memcpy(to + i * kWidth, from + static_cast<ptrdiff_t>(i) * dense_in_, kWidth * sizeof(float));
      }
      for (int oc = 0; oc < dense_out_; oc += 8) {
        outer_block(pack_a_.get() + static_cast<ptrdiff_t>(oc) * depth, pack_b_.get(), depth,
                    gradient + static_cast<ptrdiff_t>(oc) * dense_in_ + k, dense_in_);
      }
    }
  }
}

// dx[n][k] = sum over oc of dh[n][oc] * weight[oc][k].
void FusedCnn::dense_input_gradient(int n, const float* weight) {
  for (int k = 0; k < dense_in_; k += 4 * kLanes) {
    const int width = std::min(4 * kLanes, dense_in_ - k);  // 64, or 32 at the end
    for (int i = 0; i < n; ++i) std::fill_n(dx_.get() + static_cast<ptrdiff_t>(i) * dense_in_ + k, width, 0.0f);
    for (int oc = 0; oc < dense_out_; oc += kDenseDepth) {
      const int depth = std::min(kDenseDepth, dense_out_ - oc);
      for (int i = 0; i < depth; ++i) {
        std::copy_n(weight + static_cast<ptrdiff_t>(oc + i) * dense_in_ + k, width, pack_b_.get() + i * width);
      }
      gemm_block(dh_.get() + oc, dense_out_, pack_b_.get(), depth, dx_.get() + k, dense_in_, n, width / kLanes,
                 nullptr);
    }
  }
}

void FusedCnn::backward(const void* obs, int n, const Activations& kept, const float* logits_gradient,
                        const float* value_gradient, const Weights& weights, const Gradients& gradients) {
  if (!dx_.get()) {
    dh_ = FloatBuffer(static_cast<size_t>(kChunkRows) * dense_out_);
    dx_ = FloatBuffer(static_cast<size_t>(kChunkRows) * dense_in_);
    pack_a_ = FloatBuffer(static_cast<size_t>(kOuterDepth) * dense_out_);
    pack_b_ = FloatBuffer(static_cast<size_t>(std::max(kDenseDepth * 4 * kLanes, kOuterDepth * 2 * kLanes)));
    live_.resize(kChunkRows);
  }
  for (Layer& layer : layers_) {
    layer.gradient.clear();
    std::fill_n(layer.bias.get() + layer.conv.out, layer.conv.out, 0.0f);
  }
  const int step = chunk_rows(n);
  for (int begin = 0; begin < n; begin += step) {
    const int rows = std::min(step, n - begin);
    const ptrdiff_t base = begin;
    const float* hidden = kept.hidden.get() + base * dense_out_;
    if (shape_.actions == 0) {
      features_backward(rows, hidden, logits_gradient + base * dense_out_, gradients);
    } else {
      heads_backward(rows, hidden, logits_gradient + base * shape_.actions, value_gradient + base, weights, gradients);
    }
    dense_weight_gradient(rows, kept.maps.back().get() + base * dense_in_, gradients.weight.back());
    dense_input_gradient(rows, weights.weight.back());
    for (int row = 0; row < rows; ++row) {
      if (live_[static_cast<size_t>(row)]) conv_backward(obs, begin + row, row, kept);
    }
  }
  unpack_gradients(gradients);
}

void FusedCnn::unpack_gradients(const Gradients& gradients) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const int taps = layer.conv.kernel_height * layer.conv.kernel_width * layer.in_c, width = layer.vectors * kLanes;
    const float scale = i == 0 && shape_.bytes ? 1.0f / 255.0f : 1.0f;
    for (int oc = 0; oc < layer.conv.out; ++oc) {
      const float* from = layer.gradient.get() + static_cast<ptrdiff_t>(oc / width) * taps * width + oc % width;
      float* to = gradients.weight[i] + static_cast<ptrdiff_t>(oc) * taps;
      for (int k = 0; k < taps; ++k) to[k] += scale * from[static_cast<ptrdiff_t>(k) * width];
      gradients.bias[i][oc] += layer.bias.get()[layer.conv.out + oc];
    }
  }
}

}  // namespace parl::internal

#endif
