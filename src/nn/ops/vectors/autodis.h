// nn/ops/vectors/autodis.h - embeddings of numbers: each picks softly from a few trained vectors.
#pragma once

#include <string>

#include "core/memory/buffer.h"
#include "nn/ops/op.h"

namespace emblem {

struct AutodisOptions {
  int64_t dim = 0, channels = 0;
  float temperature = 0.1f, keep_prob = 0.8f;
};

// For a column's number x: h = leaky(w x), s = softmax((M h + keep_prob h) / temperature), out =
// s^T E, with parameters of its own: NAME.proj_w [columns, channels], NAME.proj_m [columns *
// channels, channels] and NAME.meta_emb [columns * channels, dim].
class Autodis : public DeviceOp<Autodis> {
 public:
  static constexpr float kNegativeSlope = 0.01f;

  Autodis(Tensor* x, const AutodisOptions& options, Tensor* out, const std::string& name,
          ParameterSet& parameters)
      : DeviceOp({x}, out), options_(options), features_(x->cols) {
    const int64_t channels = options.channels;
    weight_ = parameters.add_weight(name + ".proj_w", features_, channels,
                                    Initial::xavier_normal(1, channels));
    matrix_ = parameters.add_weight(name + ".proj_m", features_ * channels, channels,
                                    Initial::xavier_normal(channels, channels));
    vectors_ = parameters.add_weight(name + ".meta_emb", features_ * channels, options.dim,
                                     Initial::normal(1.0f));
  }
  const char* kind() const override { return "autodis"; }
  bool has_parameters() const override { return true; }
  double flops_per_row() const override {
    return 2.0 *
           static_cast<double>(features_ * options_.channels * (options_.channels + options_.dim));
  }
  void prepare(Device device, int64_t max_rows) override {
    const int64_t channels = features_ * options_.channels;
    shares_ = Buffer<float>(device, max_rows, channels);
    score_gradients_ = Buffer<float>(device, max_rows, channels);
    hidden_gradients_ = Buffer<float>(device, max_rows, channels);
  }
  int64_t workspace_floats(Device device, int64_t max_rows) const override {
    return features_ * options_.channels * std::max(options_.channels, options_.dim) *
           most_row_groups(device, max_rows);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  void backward_number(const OpContext& pass, int64_t r, int64_t feature);
  void sum_parameters(const OpContext& pass);

  AutodisOptions options_;
  int64_t features_;
  int64_t weight_, matrix_, vectors_;
  // For each number and channel: s, and the gradients of M h + keep_prob h and of w x.
  Buffer<float> shares_, score_gradients_, hidden_gradients_;
};

}  // namespace emblem
