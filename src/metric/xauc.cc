#include <algorithm>
#include <cmath>

#include "emblem/error.h"
#include "metric/kinds.h"

namespace emblem {
namespace {

struct Row {
  int64_t group;
  float label, prediction, weight;
  auto operator<=>(const Row&) const = default;
};

void sort_rows(std::vector<Row>& rows) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return (a <=> b) < 0; });
}

// Sums of weights by rank; sums of all lower ranks in O(log n).
class PrefixSums {
 public:
  explicit PrefixSums(size_t ranks) : sums_(ranks + 1) {}
  void add(size_t rank, double weight) {
    for (size_t i = rank + 1; i < sums_.size(); i += i & (~i + 1)) sums_[i] += weight;
  }
  double below(size_t rank) const {
    double sum = 0;
    for (size_t i = rank; i > 0; i -= i & (~i + 1)) sum += sums_[i];
    return sum;
  }

 private:
  std::vector<double> sums_;
};

// Rows are sorted by label, all in one group. A pair weighs the product of its rows' weights.
double xauc_of(std::span<const Row> rows) {
  std::vector<float> predictions;
  predictions.reserve(rows.size());
  for (const Row& row : rows) predictions.push_back(row.prediction);
  std::sort(predictions.begin(), predictions.end());
  const auto rank_of = [&](float prediction) {
    return static_cast<size_t>(
        std::lower_bound(predictions.begin(), predictions.end(), prediction) - predictions.begin());
  };
  PrefixSums lower(rows.size());
  double ordered = 0, total = 0, before = 0;
  for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    for (; end < rows.size() && rows[end].label == rows[begin].label; ++end)
      ordered += rows[end].weight * lower.below(rank_of(rows[end].prediction));
    for (size_t i = begin; i < end; ++i) {
      total += rows[i].weight * before;
      before += rows[i].weight;
      lower.add(rank_of(rows[i].prediction), rows[i].weight);
    }
  }
  return total > 0 ? ordered / total : kUndefined;
}

void save_rows(const std::vector<Row>& rows, ByteWriter& bytes) {
  bytes.add(static_cast<uint64_t>(rows.size()));
  for (const Row& row : rows)
    bytes.add(row.group).add(row.label).add(row.prediction).add(row.weight);
}

void restore_rows(ByteReader& bytes, std::vector<Row>& rows) {
  constexpr size_t kBytes = sizeof(int64_t) + 3 * sizeof(float);
  rows.resize(bytes.read_count(kBytes));
  for (Row& row : rows) {
    bytes.read(row.group);
    for (float* const value : {&row.label, &row.prediction, &row.weight}) {
      bytes.read(*value);
      if (!std::isfinite(*value)) bytes.fail("a row is not finite");
    }
  }
}

bool labels_differ(std::span<const Row> rows) {  // rows are those of one group, sorted
  return !rows.empty() && rows.front().label != rows.back().label;
}

Row row_of(const MetricBatch& batch, size_t row) {
  return {batch.groups.empty() ? 0 : batch.groups[row], batch.labels[row] + 0.0f,
          batch.predictions[row] + 0.0f, batch.weight(row) + 0.0f};
}

class Xauc final : public Metric {
 public:
  using Metric::Metric;

  double value() override {
    sort_rows(rows_);
    return labels_differ(rows_) ? xauc_of(rows_) : kUndefined;
  }
  void merge(const Metric& other) override {
    const auto& rows = same_kind<Xauc>(other).rows_;
    rows_.insert(rows_.end(), rows.begin(), rows.end());
  }
  void save(ByteWriter& bytes) const override { save_rows(rows_, bytes); }
  void restore(ByteReader& bytes) override { restore_rows(bytes, rows_); }

 protected:
  void accumulate(const MetricBatch& batch) override {
    for (size_t row = 0; row < batch.labels.size(); ++row) {
      rows_.push_back(row_of(batch, row));
      rows_.back().group = 0;
    }
  }

 private:
  std::vector<Row> rows_;
};

class XaucInBatch final : public Metric {
 public:
  using Metric::Metric;

  double value() override {
    return batches_ > 0 ? sum_ / static_cast<double>(batches_) : kUndefined;
  }
  void merge(const Metric& other) override {
    const auto& from = same_kind<XaucInBatch>(other);
    sum_ += from.sum_;
    batches_ += from.batches_;
  }
  void save(ByteWriter& bytes) const override { bytes.add(sum_).add(batches_); }
  void restore(ByteReader& bytes) override {
    bytes.read(sum_);
    bytes.read(batches_);
  }

 protected:
  void accumulate(const MetricBatch& batch) override {
    std::vector<Row> rows;
    for (size_t row = 0; row < batch.labels.size(); ++row) {
      rows.push_back(row_of(batch, row));
      rows.back().group = 0;
    }
    sort_rows(rows);
    const double value = xauc_of(rows);
    if (std::isnan(value)) return;
    sum_ += value;
    ++batches_;
  }

 private:
  double sum_ = 0;
  int64_t batches_ = 0;
};

class GroupedXauc final : public Metric {
 public:
  using Metric::Metric;

  double value() override {
    sort_rows(rows_);
    double sum = 0, weights = 0;
    bool differ = false;
    for (size_t begin = 0, end = 0; begin < rows_.size(); begin = end) {
      double weight = 0;
      for (; end < rows_.size() && rows_[end].group == rows_[begin].group; ++end)
        weight += rows_[end].weight;
      const auto group = std::span<const Row>(rows_).subspan(begin, end - begin);
      const double value = xauc_of(group);
      if (std::isnan(value)) continue;
      differ = differ || labels_differ(group);
      sum += weight * value;
      weights += weight;
    }
    return differ ? sum / weights : kUndefined;
  }
  void merge(const Metric& other) override {
    const auto& rows = same_kind<GroupedXauc>(other).rows_;
    rows_.insert(rows_.end(), rows.begin(), rows.end());
  }
  void save(ByteWriter& bytes) const override { save_rows(rows_, bytes); }
  void restore(ByteReader& bytes) override { restore_rows(bytes, rows_); }

 protected:
  void check(const MetricBatch& batch) const override { check_groups(batch); }
  void accumulate(const MetricBatch& batch) override {
    for (size_t row = 0; row < batch.labels.size(); ++row) rows_.push_back(row_of(batch, row));
  }

 private:
  std::vector<Row> rows_;
};

}  // namespace

std::unique_ptr<Metric> make_xauc(std::string name) {
  return std::make_unique<Xauc>(std::move(name));
}

std::unique_ptr<Metric> make_xauc_in_batch(std::string name) {
  return std::make_unique<XaucInBatch>(std::move(name));
}

std::unique_ptr<Metric> make_grouped_xauc(std::string name) {
  return std::make_unique<GroupedXauc>(std::move(name));
}

MetricKind xauc_metric() {
  return {
      .name = "xauc",
      .make = [](const config::MetricConfig& metric, const MeasuredHead& head, std::string name) {
        require_one_number(head, name);
        return metric.xauc().in_batch() ? make_xauc_in_batch(std::move(name))
                                        : make_xauc(std::move(name));
      }};
}

MetricKind grouped_xauc_metric() {
  return {.name = "grouped_xauc", .make = make_of_number<make_grouped_xauc>};
}

}  // namespace emblem
