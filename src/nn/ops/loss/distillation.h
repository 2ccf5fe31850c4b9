// nn/ops/loss/distillation.h - losses that pull a node towards another, which they do not change.
#pragma once

#include "nn/ops/loss/loss.h"

namespace emblem {

// Whether the mean over rows is multiplied by their number.
enum class Reduction { kMean, kSum };

// Distances of x and y: squared error, the mean over rows and columns of (x - y)^2; cosine, -0.1
// times the mean over rows of normalize(x) . normalize(y); Euclid, the root of the sum over rows
// and columns of (x - y)^2, with weights that have the mean 1. No gradient flows to y. Inputs:
// x, y, and of the target what there is.
class DistillationLoss : public DeviceOp<DistillationLoss, Loss> {
 public:
  DistillationLoss(Tensor* x, Tensor* y, Tensor* labels, Tensor* weights, Graph::Target target,
                   Graph::Similarity similarity, Reduction reduction, int64_t slot)
      : DeviceOp({x, y}, labels, weights, std::move(target), slot),
        similarity_(similarity),
        reduction_(reduction) {}
  const char* kind() const override { return "distillation_loss"; }
  double flops_per_row() const override { return 3.0 * static_cast<double>(in(0).cols); }
  void prepare(Device device, int64_t max_rows) override {
    Loss::prepare(device, max_rows);
    rows_ = Buffer<float>(device, max_rows, 3);
    mean_ = Buffer<double>(device, 1);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);

 private:
  float factor(const OpContext& pass) const {
    const bool is_sum = reduction_ == Reduction::kSum;
    return target().factor * (is_sum ? static_cast<float>(pass.rows) : 1.0f);
  }

  Graph::Similarity similarity_;
  Reduction reduction_;
  Buffer<float> rows_;   // a DistillationRow each
  Buffer<double> mean_;  // weighted, of the losses of rows
};

// How the losses and gradients of rows follow from sums over their columns, for every device.
struct DistillationRow {
  static constexpr float kLeastNorm = 1e-12f, kCosineFactor = -0.1f;

  float loss, both_inverse, x_inverse;

  EMBLEM_HD static DistillationRow of(Graph::Similarity similarity, int64_t cols, float squares,
                                      float product, float x_square, float y_square) {
    if (similarity == Graph::Similarity::kSquaredError)
      return {squares / static_cast<float>(cols), 0.0f, 0.0f};
    if (similarity == Graph::Similarity::kEuclid) return {squares, 0.0f, 0.0f};
    const float x = sqrtf(x_square), y = sqrtf(y_square);
    const float x_inverse = 1.0f / (x > kLeastNorm ? x : kLeastNorm);
    const float both = x_inverse / (y > kLeastNorm ? y : kLeastNorm);
    return {kCosineFactor * product * both, both, x_inverse};
  }
  EMBLEM_HD float slope(Graph::Similarity similarity, int64_t cols, float x, float y) const {
    if (similarity == Graph::Similarity::kSquaredError)
      return 2.0f / static_cast<float>(cols) * (x - y);
    if (similarity == Graph::Similarity::kEuclid) return x - y;
    return kCosineFactor * y * both_inverse - loss * x * x_inverse * x_inverse;
  }
};

// The loss from the weighted mean over rows, and what the slopes of rows are multiplied by.
EMBLEM_HD inline double distillation_value(Graph::Similarity similarity, double mean, int64_t rows,
                                           double factor) {
  return similarity == Graph::Similarity::kEuclid ? factor * sqrt(mean * static_cast<double>(rows))
                                                  : factor * mean;
}
EMBLEM_HD inline float distillation_share(Graph::Similarity similarity, double mean, int64_t rows,
                                          double total_weight, float factor) {
  const float share = share_of(total_weight, factor);
  if (similarity != Graph::Similarity::kEuclid) return share;
  if (mean == 0.0) return 0.0f;
  return share * static_cast<float>(sqrt(static_cast<double>(rows) / mean));
}

}  // namespace emblem
