// nn/ops/dense/dropout.h - zeroes a share of the elements in training and scales up the others.
#pragma once

#include "core/math/hash.h"
#include "core/memory/buffer.h"
#include "nn/ops/op.h"

namespace emblem {

// The mask depends on (seed of the graph, `stream`, draw, element) alone.
class Dropout : public DeviceOp<Dropout> {
 public:
  Dropout(Tensor* x, float ratio, uint64_t stream, Tensor* out)
      : DeviceOp({x}, out), ratio_(ratio), stream_(stream) {}
  const char* kind() const override { return "dropout"; }
  double flops_per_row() const override { return static_cast<double>(out().cols); }
  void prepare(Device device, int64_t max_rows) override {
    kept_ = Buffer<uint8_t>(device, max_rows, out().cols);
  }

  // How the mask of a batch is drawn: 64 random bits decide over two elements, each of which is
  // kept where its half is at least the threshold.
  EMBLEM_HD static uint64_t stream_of(uint64_t stream, uint64_t draw) {
    return mix64(stream + mix64(draw + 1));
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  uint32_t threshold() const {
    return static_cast<uint32_t>(static_cast<double>(ratio_) * 4294967296.0);
  }
  float scale() const { return 1.0f / (1.0f - ratio_); }  // factor of what is kept
  void apply_cuda(const OpContext& pass, const void* from, Write write, void* to) const;

  float ratio_;
  uint64_t stream_;
  Buffer<uint8_t> kept_;
  bool dropped_ = false;  // in the last forward
};

}  // namespace emblem
