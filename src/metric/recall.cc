#include <algorithm>
#include <cmath>

#include "emblem/error.h"
#include "metric/kinds.h"

namespace emblem {
namespace {

// The chance that a row's own item is among the k best.
struct AmongBest {
  int64_t k;

  double operator()(const CandidateRank& rank) const {
    return std::clamp((static_cast<double>(k) - rank.better) / rank.equal, 0.0, 1.0);
  }
};

struct RankLoss {
  double operator()(const CandidateRank& rank) const { return rank.loss; }
};

// The weighted mean of a number of each row's rank.
template <class OfRank>
class RankMean final : public Metric {
 public:
  RankMean(OfRank of_rank, double factor, std::string name)
      : Metric(std::move(name)), of_rank_(of_rank), factor_(factor) {}

  double value() override { return factor_ * mean_.mean(); }
  void merge(const Metric& other) override { mean_.add(same_kind<RankMean>(other).mean_); }
  void save(ByteWriter& bytes) const override { mean_.save(bytes); }
  void restore(ByteReader& bytes) override { mean_.restore(bytes); }

 protected:
  void check(const MetricBatch& batch) const override {
    EMBLEM_REQUIRE(batch.ranks.size() == batch.labels.size(), "metric ", name(),
                   " needs the rank of each row's item, but the batch has ", batch.ranks.size(),
                   " for ", batch.labels.size());
    for (const CandidateRank& rank : batch.ranks)
      EMBLEM_REQUIRE(std::isfinite(rank.loss), "metric ", name(), " got a loss of ", rank.loss,
                     " (has the model diverged? try a lower learning rate)");
  }
  void accumulate(const MetricBatch& batch) override {
    for (size_t row = 0; row < batch.ranks.size(); ++row)
      mean_.add(of_rank_(batch.ranks[row]), batch.weight(row));
  }

 private:
  OfRank of_rank_;
  double factor_;
  WeightedMean mean_;
};

}  // namespace

std::unique_ptr<Metric> make_recall_at_k(int64_t k, std::string name) {
  EMBLEM_REQUIRE(k >= 1, "recall_at_k has top_k: ", k, ", but it must be at least 1");
  if (name.empty()) name = cat("recall@", k);
  return std::make_unique<RankMean<AmongBest>>(AmongBest{k}, 1.0, std::move(name));
}

std::unique_ptr<Metric> make_rank_loss(double factor, std::string name) {
  return std::make_unique<RankMean<RankLoss>>(RankLoss{}, factor, std::move(name));
}

MetricKind recall_at_k_metric() {
  return {.name = "recall_at_k",
          .make =
              [](const config::MetricConfig& metric, const MeasuredHead&, std::string name) {
                return make_recall_at_k(metric.recall_at_k().top_k(), std::move(name));
              },
          .of_ranks = true};
}

}  // namespace emblem
