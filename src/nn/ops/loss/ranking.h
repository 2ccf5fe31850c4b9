// nn/ops/loss/ranking.h - how users rank candidates by dot products, and the mean of it as a loss.
#pragma once

#include "emblem/error.h"
#include "nn/matching.h"
#include "nn/ops/loss/loss.h"

namespace emblem {

// users [rows, n], items [items, n], out [rows, kRankColumns]: see nn/matching.h. The candidates of
// row r are item r and the items from `first` on.
class RankCandidates : public DeviceOp<RankCandidates> {
 public:
  RankCandidates(Tensor* users, Tensor* items, Candidates candidates, float temperature,
                 Tensor* out)
      : DeviceOp({users, items}, out), candidates_(candidates), scale_(1.0f / temperature) {}
  const char* kind() const override { return "rank_candidates"; }
  bool connects_spaces() const override { return true; }
  double flops_per_row() const override {
    return 2.0 * static_cast<double>(in(0).cols) * static_cast<double>(max_batch_rows());
  }
  void prepare(Device device, int64_t) override {
    own_ = Buffer<float>(device, max_batch_rows());
    norms_ = Buffer<float>(device, max_batch_rows());
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);

 private:
  struct Scores;  // a tile of them, on a CPU
  int64_t first_candidate(const OpContext& pass) const {
    EMBLEM_REQUIRE(pass.rows >= pass.batch_rows, kind(), ": there are ", pass.rows, " items for ",
                   pass.batch_rows, " rows, expected at least one per row");
    return candidates_ == Candidates::kAllItems ? 0 : pass.batch_rows;
  }
  void rank_rows(const OpContext& pass, int64_t begin, int64_t end, Scores& scores);
  void user_gradients(const OpContext& pass, int64_t begin, int64_t end, Scores& scores);
  void item_gradients(const OpContext& pass, int64_t begin, int64_t end, Scores& scores);

  Candidates candidates_;
  float scale_;
  Buffer<float> own_;    // score of each row's own item
  Buffer<float> norms_;  // log of the sum of e^score over the candidates of each row
};

// The weighted mean of the first column.
class MeanLoss : public DeviceOp<MeanLoss, Loss> {
 public:
  MeanLoss(Tensor* x, Tensor* labels, Tensor* weights, Graph::Target target, int64_t slot)
      : DeviceOp({x}, labels, weights, std::move(target), slot) {}
  const char* kind() const override { return "mean_loss"; }
  bool reads_fp32(size_t) const override { return true; }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
};

}  // namespace emblem
