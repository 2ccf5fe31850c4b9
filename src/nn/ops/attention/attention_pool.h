// nn/ops/attention/attention_pool.h - the elements of a row weighted by the softmax of their
// scores.
#pragma once

#include "core/memory/buffer.h"
#include "nn/ops/op.h"

namespace emblem {

// scores [elements, 1], x [elements, cols]; out [rows, cols] = the sum over the elements of a row
// of softmax(scores) x, which is 0 for rows without elements.
class AttentionPool : public DeviceOp<AttentionPool> {
 public:
  AttentionPool(Tensor* scores, Tensor* x, Tensor* out) : DeviceOp({scores, x}, out) {}
  const char* kind() const override { return "attention_pool"; }
  bool connects_spaces() const override { return true; }
  double flops_per_row() const override { return 2.0 * static_cast<double>(out().cols) + 4.0; }
  void prepare(Device device, int64_t max_rows) override {
    weights_ = Buffer<float>(device, max_rows);
    slopes_ = Buffer<float>(device, max_rows);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  void backward_row(const OpContext& pass, int64_t r);

  Buffer<float> weights_;  // weights of the last forward
  Buffer<float> slopes_;   // gradients of the weights
};

}  // namespace emblem
