// nn/ops/vectors/segment.h - copies of the batch's rows for the elements of a sequence, and sums
// over the elements of a row.
#pragma once

#include "core/device/host_device.h"
#include "nn/ops/op.h"

namespace emblem {

// What elements of a row are divided by.
enum class Divide { kNone, kByLength };

// A batch's rows, each for all elements of its row; and the sum over the elements of each row. Both
// are [.., cols] of one type; `to` is written or added to.
namespace cpu {
void spread_rows(const OpContext& pass, Divide divide, const float* from, int64_t cols, Write write,
                 float* to);
void sum_segments(const OpContext& pass, Divide divide, const float* from, int64_t cols,
                  Write write, float* to);
// Grain size: rows of the batch that a thread works on at a time, with `cols` values for each
// element.
int64_t batch_rows_per_chunk(const OpContext& pass, int64_t cols);
}  // namespace cpu
namespace cuda {
void spread_rows(const OpContext& pass, Divide divide, DType type, const void* from, int64_t cols,
                 Write write, void* to);
void sum_segments(const OpContext& pass, Divide divide, DType type, const void* from, int64_t cols,
                  Write write, void* to);
// Zeroes the rows of padding of a [rows, cols] matrix.
void clear_padding(const OpContext& pass, DType type, int64_t cols, void* to);
}  // namespace cuda

// out [elements, cols] = x [rows, cols] of the row of each element.
class Repeat : public DeviceOp<Repeat> {
 public:
  Repeat(Tensor* x, Tensor* out) : DeviceOp({x}, out) {}
  const char* kind() const override { return "repeat"; }
  bool connects_spaces() const override { return true; }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;
};

// out [rows, cols] = the sum or mean of x [elements, cols] over the elements of each row.
class SegmentSum : public DeviceOp<SegmentSum> {
 public:
  SegmentSum(Tensor* x, Divide divide, Tensor* out) : DeviceOp({x}, out), divide_(divide) {}
  const char* kind() const override {
    return divide_ == Divide::kNone ? "segment_sum" : "segment_mean";
  }
  bool connects_spaces() const override { return true; }
  double flops_per_row() const override { return static_cast<double>(out().cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  Divide divide_;
};

// Windows of the given lengths over the elements of a row, one after the other: the sum of x in
// each divided by the number of elements in it. Out [rows, windows * cols].
class WindowMeans : public DeviceOp<WindowMeans> {
 public:
  static constexpr int kMostWindows = 32;
  // Ends of the windows, in elements of the row.
  struct Windows {
    int count = 0;
    int32_t ends[kMostWindows] = {};
    EMBLEM_HD int32_t begin(int w) const { return w == 0 ? 0 : ends[w - 1]; }
  };
  WindowMeans(Tensor* x, const Windows& windows, Tensor* out)
      : DeviceOp({x}, out), windows_(windows) {}
  const char* kind() const override { return "window_means"; }
  bool connects_spaces() const override { return true; }
  double flops_per_row() const override { return static_cast<double>(in(0).cols); }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  Windows windows_;
};

}  // namespace emblem
