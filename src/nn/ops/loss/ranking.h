// nn/ops/loss/ranking.h - how users rank candidates by dot products, and the mean of it as a loss.
#pragma once

#include "emblem/error.h"
#include "nn/matching.h"
#include "nn/ops/loss/loss.h"

namespace emblem {

// What CandidateOptions says of the items of a batch; null: nothing.
struct CandidateFacts {
  const int64_t* ids = nullptr;
  const float* corrections = nullptr;
  const int64_t* candidate_of = nullptr;

  EMBLEM_HD bool are_equal(int64_t a, int64_t b) const {
    return ids != nullptr && ids[a] == ids[b];
  }
  EMBLEM_HD float corrected(float score, int64_t item) const {
    return corrections == nullptr ? score : score - corrections[item];
  }
  // The first item from `first` on that is a candidate of `row` or a row after it alone; `items`:
  // there is none.
  EMBLEM_HD int64_t first_of_row(int64_t row, int64_t first, int64_t items) const {
    if (candidate_of == nullptr) return items;
    while (first < items) {
      const int64_t middle = first + (items - first) / 2;
      if (candidate_of[middle] < row)
        first = middle + 1;
      else
        items = middle;
    }
    return first;
  }
};

// users [rows, n], items [items, n], out [rows, kRankColumns]: see nn/matching.h. The candidates of
// row r are item r, the items from `first` on that are those of all rows, and its own.
class RankCandidates : public DeviceOp<RankCandidates> {
 public:
  struct Facts {  // null: there are none
    Tensor *ids = nullptr, *corrections = nullptr, *candidate_of = nullptr;
  };
  RankCandidates(Tensor* users, Tensor* items, const Facts& facts, const CandidateOptions& options,
                 Tensor* out)
      : DeviceOp(with_facts({users, items}, facts), out),
        facts_(facts),
        candidates_(options.candidates),
        scale_(1.0f / options.temperature) {}
  const char* kind() const override { return "rank_candidates"; }
  bool connects_spaces() const override { return true; }
  bool reads_fp32(size_t input) const override { return inputs()[input] == facts_.corrections; }
  bool sends_gradient(size_t input) const override { return input < 2; }
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
  static std::vector<Tensor*> with_facts(std::vector<Tensor*> inputs, const Facts& facts) {
    for (Tensor* each : {facts.ids, facts.corrections, facts.candidate_of})
      if (each != nullptr) inputs.push_back(each);
    return inputs;
  }
  CandidateFacts facts() const {
    return {.ids = facts_.ids ? facts_.ids->value<int64_t>() : nullptr,
            .corrections = facts_.corrections ? facts_.corrections->value() : nullptr,
            .candidate_of = facts_.candidate_of ? facts_.candidate_of->value<int64_t>() : nullptr};
  }
  // The items that are candidates of all rows end here; then those of row 0 begin.
  int64_t end_of_shared(const OpContext& pass) const {
    return facts().first_of_row(0, pass.batch_rows, pass.rows);
  }
  int64_t first_candidate(const OpContext& pass) const {
    EMBLEM_REQUIRE(pass.rows >= pass.batch_rows, kind(), ": there are ", pass.rows, " items for ",
                   pass.batch_rows, " rows, expected at least one per row");
    return candidates_ == Candidates::kAllItems ? 0 : pass.batch_rows;
  }
  void rank_rows(const OpContext& pass, int64_t begin, int64_t end, Scores& scores);
  void user_gradients(const OpContext& pass, int64_t begin, int64_t end, Scores& scores);
  void item_gradients(const OpContext& pass, int64_t begin, int64_t end, Scores& scores);
  void own_item_gradients(const OpContext& pass, int64_t begin, int64_t end, Scores& scores);
  // Calls body(r, from, to) for parts of the items [from, to) that are candidates of row r alone.
  template <class Body>
  void for_own_candidates(const OpContext& pass, int64_t begin, int64_t end,
                          const Body& body) const;

  Facts facts_;
  Candidates candidates_;
  float scale_;
  Buffer<float> own_;    // corrected score of each row's own item
  Buffer<float> norms_;  // log of the sum of e^(corrected score) over the candidates of each row
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
