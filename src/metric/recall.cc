#include "metric/recall.h"

#include <algorithm>
#include <cmath>

#include "emblem/error.h"
#include "metric/kinds.h"

namespace emblem {

double recall_at_k(std::span<const float> scores, int64_t target, int64_t k) {
  EMBLEM_REQUIRE(target >= 0 && target < static_cast<int64_t>(scores.size()), "recall@", k,
                 ": target ", target, " is outside the ", scores.size(), " candidates");
  int64_t better = 0, equal = 0;  // `equal` counts the target itself
  for (const float score : scores) {
    EMBLEM_REQUIRE(!std::isnan(score), "recall@", k, ": a candidate's score is NaN");
    better += score > scores[target];
    equal += score == scores[target];
  }
  return std::clamp(static_cast<double>(k - better) / static_cast<double>(equal), 0.0, 1.0);
}

RecallAtK::RecallAtK(int64_t k) : k_(k) {
  EMBLEM_REQUIRE(k >= 1, "recall_at_k has top_k: ", k, ", but it must be at least 1");
}

std::string RecallAtK::name() const { return cat("recall@", k_); }

void RecallAtK::add(View<const float> scores, std::span<const int64_t> targets) {
  EMBLEM_REQUIRE(static_cast<int64_t>(targets.size()) == scores.rows, "recall@", k_, " got ",
                 targets.size(), " targets for ", scores.rows, " queries");
  double hits = 0;
  for (int64_t query = 0; query < scores.rows; ++query) {
    hits += recall_at_k({scores.row(query), static_cast<size_t>(scores.cols)}, targets[query], k_);
  }
  hits_ += hits;
  queries_ += scores.rows;
}

double RecallAtK::value() const {
  return queries_ > 0 ? hits_ / static_cast<double>(queries_) : kUndefined;
}

void RecallAtK::merge(const RecallAtK& other) {
  EMBLEM_REQUIRE(k_ == other.k_, "cannot merge recall@", other.k_, " into recall@", k_);
  hits_ += other.hits_;
  queries_ += other.queries_;
}

MetricKind recall_at_k_metric() {
  return {.name = "recall_at_k",
          .make = [](const config::MetricConfig&, const MeasuredHead&,
                     std::string) -> std::unique_ptr<Metric> {
            throw Error(ErrorCode::kInvalidArgument,
                        "metric recall_at_k is not supported: it ranks the candidates of one "
                        "query, but this model scores single rows; use grouped_auc or ndcg_at_k "
                        "with a grouping_key instead");
          }};
}

}  // namespace emblem
