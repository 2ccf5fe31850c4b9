// nn/ops/vectors/mix.h - experts weighted by gates.
#pragma once

#include "nn/ops/op.h"

namespace emblem {

// out[r, j] = sum over k of gate[r, k] expert_k[r, j]. Inputs: the gate, then the experts.
class Mix : public DeviceOp<Mix> {
 public:
  using DeviceOp::DeviceOp;
  const char* kind() const override { return "mix"; }
  bool reads_padded_rows() const override { return true; }
  bool writes_padded_rows() const override { return true; }
  // The gate may have rows of its own length.
  bool pads_all_alike() const override { return true; }
  double flops_per_row() const override {
    return 2.0 * static_cast<double>(experts() * out().cols);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  int64_t experts() const { return static_cast<int64_t>(inputs().size()) - 1; }
};

}  // namespace emblem
