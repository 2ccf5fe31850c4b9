#include <algorithm>
#include <cmath>

#include "emblem/error.h"
#include "metric/kinds.h"

namespace emblem {
namespace {

class NdcgAtK final : public Metric {
 public:
  NdcgAtK(int64_t k, std::string name) : Metric(std::move(name)), k_(k) {}

  double value() override {
    std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return (a <=> b) < 0; });
    double sum = 0;
    int64_t groups = 0;
    for (size_t begin = 0, end = 0; begin < rows_.size(); begin = end) {
      while (end < rows_.size() && rows_[end].group == rows_[begin].group) ++end;
      const std::span<const Row> group = std::span(rows_).subspan(begin, end - begin);
      const double ideal = ideal_gain(group);
      if (ideal <= 0) continue;
      sum += gain(group) / ideal;
      ++groups;
    }
    return groups > 0 ? sum / static_cast<double>(groups) : kUndefined;
  }

  void merge(const Metric& other) override {
    const auto& from = same_kind<NdcgAtK>(other);
    EMBLEM_REQUIRE(from.k_ == k_, "cannot merge metric ", from.name(), " into ", name());
    rows_.insert(rows_.end(), from.rows_.begin(), from.rows_.end());
  }

  void save(ByteWriter& bytes) const override {
    bytes.add(static_cast<uint64_t>(rows_.size()));
    for (const Row& row : rows_) bytes.add(row.group).add(row.below).add(row.label);
  }
  void restore(ByteReader& bytes) override {
    rows_.resize(bytes.read_count(sizeof(Row)));
    for (Row& row : rows_) {
      bytes.read(row.group);
      bytes.read(row.below);
      bytes.read(row.label);
      if (!std::isfinite(row.below) || !std::isfinite(row.label)) bytes.fail("a row is not finite");
    }
  }

 protected:
  void check(const MetricBatch& batch) const override {
    check_groups(batch);
    for (const float label : batch.labels) {
      EMBLEM_REQUIRE(label >= 0.0f, "metric ", name(), " needs labels of 0 or more, but found ",
                     label);
    }
  }
  void accumulate(const MetricBatch& batch) override {
    for (size_t row = 0; row < batch.labels.size(); ++row)
      rows_.push_back({batch.groups[row], -batch.predictions[row] + 0.0f, batch.labels[row]});
  }

 private:
  struct Row {
    int64_t group;
    float below;  // the negative score: the best row of a group comes first
    float label;
    auto operator<=>(const Row&) const = default;
  };

  // The rank counts from 0.
  double discount(size_t rank) const {
    return static_cast<int64_t>(rank) < k_ ? 1.0 / std::log2(static_cast<double>(rank) + 2.0) : 0.0;
  }

  // Rows with one score share the discounts of their ranks.
  double gain(std::span<const Row> group) const {
    double sum = 0;
    for (size_t begin = 0, end = 0; begin < group.size(); begin = end) {
      double labels = 0, discounts = 0;
      for (; end < group.size() && group[end].below == group[begin].below; ++end) {
        labels += group[end].label;
        discounts += discount(end);
      }
      sum += labels * discounts / static_cast<double>(end - begin);
    }
    return sum;
  }

  double ideal_gain(std::span<const Row> group) const {
    std::vector<float> labels;
    for (const Row& row : group) labels.push_back(row.label);
    std::sort(labels.begin(), labels.end(), std::greater<>());
    double sum = 0;
    for (size_t rank = 0; rank < labels.size(); ++rank) sum += labels[rank] * discount(rank);
    return sum;
  }

  int64_t k_;
  std::vector<Row> rows_;
};

}  // namespace

std::unique_ptr<Metric> make_ndcg_at_k(int64_t k, std::string name) {
  EMBLEM_REQUIRE(k >= 1, "metric ndcg_at_k has top_k: ", k, ", but it must be at least 1");
  if (name.empty()) name = cat("ndcg@", k);
  return std::make_unique<NdcgAtK>(k, std::move(name));
}

MetricKind ndcg_at_k_metric() {
  return {
      .name = "ndcg_at_k",
      .make = [](const config::MetricConfig& metric, const MeasuredHead& head, std::string name) {
        require_one_number(head, name);
        return make_ndcg_at_k(metric.ndcg_at_k().top_k(), std::move(name));
      }};
}

}  // namespace emblem
