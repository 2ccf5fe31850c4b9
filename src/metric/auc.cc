#include <algorithm>
#include <bit>

#include "emblem/error.h"
#include "metric/kinds.h"

namespace emblem {
namespace {

// A row in one word whose unsigned order is the order of scores: the score's bits, made monotone,
// in the high half; the label and the bits of the weight (whose sign bit is free) in the low half.
uint64_t pack_row(float score, bool is_positive, float weight) {
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 becomes 0: they tie
  const uint32_t ordered = bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
  const uint32_t rest = (is_positive ? 0x80000000u : 0u) | std::bit_cast<uint32_t>(weight + 0.0f);
  return static_cast<uint64_t>(ordered) << 32 | rest;
}
uint32_t score_of(uint64_t packed) { return static_cast<uint32_t>(packed >> 32); }
bool is_positive(uint64_t packed) { return (packed >> 31 & 1) != 0; }
float weight_of(uint64_t packed) {
  return std::bit_cast<float>(static_cast<uint32_t>(packed) & 0x7fffffffu);
}

void check_binary_labels(const MetricBatch& batch, const std::string& name) {
  for (size_t row = 0; row < batch.labels.size(); ++row) {
    const float label = batch.labels[row];
    EMBLEM_REQUIRE(label >= 0.0f && label <= 1.0f, "metric ", name,
                   " needs labels in [0, 1], but row ", row, " of the batch has label ", label);
  }
}

// Calls add(is_positive, weight) for a row: once where its label is 0 or 1. A label y between them
// is a positive row with y of the weight and a negative one with the rest.
template <class Add>
void for_each_outcome(const MetricBatch& batch, size_t row, Add&& add) {
  const float label = batch.labels[row], weight = batch.weight(row);
  if (label > 0.0f) add(true, weight * label);
  if (label < 1.0f) add(false, weight * (1.0f - label));
}

// Adds up the curve point by point, from the lowest score to the highest.
class AreaUnderCurve {
 public:
  // `positive` and `negative` are the weights of rows with one score.
  void add(double positive, double negative) {
    pairs_ += positive * (negatives_ + 0.5 * negative);
    positives_ += positive;
    negatives_ += negative;
  }
  double value() const {
    return positives_ > 0 && negatives_ > 0 ? pairs_ / (positives_ * negatives_) : kUndefined;
  }

 private:
  double pairs_ = 0, positives_ = 0, negatives_ = 0;
};

// `packed(i)` gives row i; rows [begin, end) are sorted.
template <class Packed>
double area_of_sorted_rows(size_t begin, size_t end, Packed packed) {
  AreaUnderCurve area;
  while (begin < end) {
    const uint32_t score = score_of(packed(begin));
    double positive = 0, negative = 0;
    for (; begin < end && score_of(packed(begin)) == score; ++begin) {
      (is_positive(packed(begin)) ? positive : negative) += weight_of(packed(begin));
    }
    area.add(positive, negative);
  }
  return area.value();
}

class ExactAuc final : public Metric {
 public:
  using Metric::Metric;

  double value() override {
    // Sorted in place, so that memory stays at 8 bytes per row.
    std::sort(rows_.begin(), rows_.end());
    return area_of_sorted_rows(0, rows_.size(), [&](size_t i) { return rows_[i]; });
  }

  void merge(const Metric& other) override {
    const auto& rows = same_kind<ExactAuc>(other).rows_;
    rows_.insert(rows_.end(), rows.begin(), rows.end());
  }

  void save(ByteWriter& bytes) const override { bytes.add_all(rows_); }
  void restore(ByteReader& bytes) override { bytes.read_all(rows_); }

 protected:
  void check(const MetricBatch& batch) const override { check_binary_labels(batch, name()); }

  void accumulate(const MetricBatch& batch) override {
    for (size_t row = 0; row < batch.labels.size(); ++row) {
      for_each_outcome(batch, row, [&](bool is_positive, float weight) {
        rows_.push_back(pack_row(batch.predictions[row], is_positive, weight));
      });
    }
  }

 private:
  std::vector<uint64_t> rows_;
};

class GroupedAuc final : public Metric {
 public:
  using Metric::Metric;

  double value() override {
    std::sort(rows_.begin(), rows_.end());
    double sum = 0;
    int64_t groups = 0;
    for (size_t begin = 0, end = 0; begin < rows_.size(); begin = end) {
      while (end < rows_.size() && rows_[end].group == rows_[begin].group) ++end;
      const double area =
          area_of_sorted_rows(begin, end, [&](size_t i) { return rows_[i].packed; });
      if (area != area) continue;
      sum += area;
      ++groups;
    }
    return groups > 0 ? sum / static_cast<double>(groups) : kUndefined;
  }

  void merge(const Metric& other) override {
    const auto& rows = same_kind<GroupedAuc>(other).rows_;
    rows_.insert(rows_.end(), rows.begin(), rows.end());
  }

  void save(ByteWriter& bytes) const override { bytes.add_all(rows_); }
  void restore(ByteReader& bytes) override { bytes.read_all(rows_); }

 protected:
  void check(const MetricBatch& batch) const override {
    check_groups(batch);
    check_binary_labels(batch, name());
  }

  void accumulate(const MetricBatch& batch) override {
    for (size_t row = 0; row < batch.labels.size(); ++row) {
      for_each_outcome(batch, row, [&](bool is_positive, float weight) {
        rows_.push_back({batch.groups[row], pack_row(batch.predictions[row], is_positive, weight)});
      });
    }
  }

 private:
  struct Row {
    int64_t group;
    uint64_t packed;
    auto operator<=>(const Row&) const = default;
  };
  std::vector<Row> rows_;
};

class BinnedAuc final : public Metric {
 public:
  BinnedAuc(int64_t thresholds, std::string name)
      : Metric(std::move(name)),
        thresholds_(auc_thresholds(thresholds)),
        positives_(thresholds),
        negatives_(thresholds) {}

  // Rows between two thresholds tie. The curve runs to (0, 0) even when some probabilities are
  // exactly 1.
  double value() override {
    AreaUnderCurve area;
    for (size_t bin = 0; bin < thresholds_.size(); ++bin)
      area.add(positives_[bin], negatives_[bin]);
    return area.value();
  }

  void merge(const Metric& other) override {
    const auto& from = same_kind<BinnedAuc>(other);
    EMBLEM_REQUIRE(from.thresholds_.size() == thresholds_.size(), "cannot merge metric ", name(),
                   " with ", from.thresholds_.size(), " thresholds into one with ",
                   thresholds_.size());
    for (size_t bin = 0; bin < thresholds_.size(); ++bin) {
      positives_[bin] += from.positives_[bin];
      negatives_[bin] += from.negatives_[bin];
    }
  }

  void save(ByteWriter& bytes) const override { bytes.add_all(positives_).add_all(negatives_); }
  void restore(ByteReader& bytes) override {
    bytes.read_all(positives_);
    bytes.read_all(negatives_);
    if (positives_.size() != thresholds_.size() || negatives_.size() != thresholds_.size())
      bytes.fail(cat("an AUC of ", positives_.size(), " thresholds, not ", thresholds_.size()));
  }

  bool has_counts() const override { return true; }
  void scale(double factor) override {
    for (double& count : positives_) count *= factor;
    for (double& count : negatives_) count *= factor;
  }

 protected:
  void check(const MetricBatch& batch) const override {
    check_binary_labels(batch, name());
    for (const float p : batch.predictions) {
      EMBLEM_REQUIRE(p >= 0.0f && p <= 1.0f, "metric ", name(),
                     " by thresholds needs probabilities in [0, 1], but found ", p,
                     "; set thresholds: 0 for the exact metric");
    }
  }

  void accumulate(const MetricBatch& batch) override {
    for (size_t row = 0; row < batch.labels.size(); ++row) {
      for_each_outcome(batch, row, [&](bool is_positive, float weight) {
        auto& bins = is_positive ? positives_ : negatives_;
        bins[bin_of(batch.predictions[row])] += weight;
      });
    }
  }

 private:
  // The highest threshold that the probability reaches.
  size_t bin_of(float probability) const {
    const size_t last = thresholds_.size() - 1;
    size_t bin = std::min(static_cast<size_t>(probability * static_cast<float>(last)), last);
    while (thresholds_[bin] > probability) --bin;  // the product may be off by rounding
    while (bin < last && thresholds_[bin + 1] <= probability) ++bin;
    return bin;
  }

  std::vector<float> thresholds_;
  std::vector<double> positives_, negatives_;  // weights by bin_of
};

}  // namespace

std::vector<float> auc_thresholds(int64_t count) {
  // Computed in float and from both ends, as TorchEasyRec and SOK space them: a score on a
  // threshold falls on the same side.
  const float step = 1.0f / static_cast<float>(count - 1);
  std::vector<float> thresholds(count);
  for (int64_t i = 0; i < count; ++i) {
    thresholds[i] = i < count / 2 ? step * static_cast<float>(i)
                                  : 1.0f - step * static_cast<float>(count - 1 - i);
  }
  return thresholds;
}

std::unique_ptr<Metric> make_exact_auc(std::string name) {
  return std::make_unique<ExactAuc>(std::move(name));
}

std::unique_ptr<Metric> make_binned_auc(int64_t thresholds, std::string name) {
  EMBLEM_REQUIRE(thresholds >= 2 && thresholds <= (1 << 24), "metric ", name,
                 " has thresholds: ", thresholds,
                 ", but needs 2 to 16777216 of them, or 0 for the exact metric");
  return std::make_unique<BinnedAuc>(thresholds, std::move(name));
}

std::unique_ptr<Metric> make_grouped_auc(std::string name) {
  return std::make_unique<GroupedAuc>(std::move(name));
}

MetricKind auc_metric() {
  return {.name = "auc",
          .problem = need_two_outcomes,
          .make =
              [](const config::MetricConfig& metric, const MeasuredHead&, std::string name) {
                return metric.auc().thresholds() == 0
                           ? make_exact_auc(std::move(name))
                           : make_binned_auc(metric.auc().thresholds(), std::move(name));
              },
          .second_name =
              [](const config::MetricConfig& metric) {
                const uint32_t thresholds = metric.auc().thresholds();
                return cat("auc_", thresholds == 0 ? "exact" : std::to_string(thresholds));
              },
          .note = [](const config::MetricConfig& metric) -> std::string {
            const uint32_t thresholds = metric.auc().thresholds();
            if (thresholds == 0) return "";
            return cat("is binned: computed at ", thresholds,
                       " thresholds, as TorchEasyRec does; auc { thresholds: 0 } is exact");
          }};
}

MetricKind grouped_auc_metric() {
  return {.name = "grouped_auc",
          .problem = need_two_outcomes,
          .make = [](const config::MetricConfig&, const MeasuredHead&, std::string name) {
            return make_grouped_auc(std::move(name));
          }};
}

}  // namespace emblem
