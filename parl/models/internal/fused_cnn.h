// FusedCnn: forward and backward pass of models/cnn.h's networks by hand, for one AVX-512 core (conv_kernels.h). Free
// of torch.
//
// What it saves against a general library: uint8 pixels are converted once, into the padded image that the first
// convolution reads; /255 sits in the packed weights; bias and ReLU happen on the way out of the registers; there is no
// gradient for the input and none for rows whose gradient is zero; nothing is allocated, no layout is changed.
// The last layer is a matrix product over blocks of rows that fit the second-level cache.
//
// Weights come as plain pointers: [out][kernel height][kernel width][in] (channels-last), row-major heads.
// Owner: one Cnn. Thread rule: one thread at a time.
#pragma once

#include "parl/models/internal/conv_kernels.h"

#ifdef PARL_HAS_CONV_KERNELS

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace parl::internal {

// Zeroed memory on a cache line, in huge pages where it is large.
class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(size_t size);
  float* get() const { return data_.get(); }
  size_t size() const { return size_; }
  void clear();

 private:
  struct Free {
    void operator()(float* p) const;
  };
  std::unique_ptr<float, Free> data_;
  size_t size_ = 0;
};

struct FusedConv {
  int kernel_height, kernel_width, stride, padding, out;
};

class FusedCnn {
 public:
  struct Shape {
    int height, width, channels;
    bool bytes;                     // uint8 pixels, worth pixel / 255
    std::vector<FusedConv> layers;  // the last one covers the whole remaining image
    int actions;                    // 0: no heads; the outputs are the last layer's, after ReLU
  };
  struct Weights {
    std::vector<const float*> weight, bias;  // per layer
    const float *policy_weight, *policy_bias, *value_weight, *value_bias;
  };
  // Where gradients are added.
  struct Gradients {
    std::vector<float*> weight, bias;
    float *policy_weight, *policy_bias, *value_weight, *value_bias;
  };
  // What the backward pass needs of a forward pass over n observations. Memory is kept for the next one.
  struct Activations {
    std::vector<FloatBuffer> maps;  // per spatial layer, n images; the last is the matrix product's input
    FloatBuffer hidden;
    int capacity = 0;
  };

  static bool supports(const Shape& shape);
  explicit FusedCnn(const Shape& shape);

  // Copies the weights into the order in which they are read. Call it whenever they changed.
  void pack(const Weights& weights);
  // obs [n][H][W][C]; logits [n][actions], value [n]; without heads logits [n][features], no value. `keep` may be null
  // (no backward pass follows).
  void forward(const void* obs, int n, float* logits, float* value, Activations* keep);
  // Adds the gradients, given those of the outputs. `weights` are those that were packed.
  void backward(const void* obs, int n, const Activations& kept, const float* logits_gradient,
                const float* value_gradient, const Weights& weights, const Gradients& gradients);

 private:
  struct Layer {
    FusedConv conv;
    int in_h, in_w, in_c, pad_w;  // input; pad_w: row of the padded input in pixels
    int out_h, out_w;
    int vectors, panels;            // of output channels, forward and weight gradient
    int back_vectors, back_panels;  // of input channels, input gradient
    int border, dy_w;               // zero columns around the output's gradient, its row in pixels
    size_t map_size;                // floats of its output as it is stored
    ptrdiff_t map_origin, map_row;  // where its first pixel and the next row lie in there
    FloatBuffer weights, gradient, back_weights, bias, dy;
  };

  void pack_conv(Layer& layer, const float* weight, const float* bias, float scale);
  void pack_backward(Layer& layer, const float* weight);
  void load_image(const void* obs, int row);
  void conv_forward(const Layer& layer, const float* in, float* out);
  void dense_forward(const float* in, int n, float* hidden);
  void heads_forward(const float* hidden, int n, float* logits, float* value);

  int outputs() const { return shape_.actions ? shape_.actions : dense_out_; }  // floats of one observation's logits
  void features_backward(int n, const float* hidden, const float* gradient, const Gradients& gradients);
  void heads_backward(int n, const float* hidden, const float* logits_gradient, const float* value_gradient,
                      const Weights& weights, const Gradients& gradients);
  void dense_weight_gradient(int n, const float* in, float* gradient);
  void dense_input_gradient(int n, const float* weight);
  void conv_backward(const void* obs, int row, int chunk_row, const Activations& kept);
  void weight_gradient(Layer& layer, const float* in);
  void input_gradient(const Layer& layer, Layer& below, const float* mask_map);
  void unpack_gradients(const Gradients& gradients);

  Shape shape_;
  std::vector<Layer> layers_;  // the spatial ones
  int dense_in_, dense_out_, head_vectors_;
  FloatBuffer image_, dense_weights_, dense_bias_, head_weights_, head_bias_, head_out_;
  FloatBuffer dh_, dx_, pack_a_, pack_b_;
  std::vector<char> live_;
  Activations scratch_;  // one image's maps, a chunk of the last
};

}  // namespace parl::internal

#endif
