// Losses as metrics: means over rows, computed in double precision from logits.
#include "emblem/error.h"
#include "metric/metric.h"

namespace emblem {
namespace {

template <class Loss>
class LossMetric final : public Metric {
 public:
  LossMetric(const Loss& loss, double factor, std::string name)
      : Metric(std::move(name)), loss_(loss), factor_(factor) {}

  double value() override {
    return mean_.weight > 0 ? factor_ * mean_.sum / mean_.weight : kUndefined;
  }
  void merge(const Metric& other) override { mean_.add(same_kind<LossMetric>(other).mean_); }
  void save(ByteWriter& bytes) const override { mean_.save(bytes); }
  void restore(ByteReader& bytes) override { mean_.restore(bytes); }

 protected:
  void check(const MetricBatch& batch) const override {
    if (Loss::kHead == HeadKind::kBinary) need_logits(batch);
    if (Loss::kHead == HeadKind::kClass) need_class_logits(batch);
    if constexpr (!is_of_rows<Loss>) check_groups(batch);
    if constexpr (requires { Loss::kClasses; })
      EMBLEM_REQUIRE(batch.classes == Loss::kClasses, "loss ", name(), " needs ", Loss::kClasses,
                     " classes, but the model has ", batch.classes);
  }

  void accumulate(const MetricBatch& batch) override {
    std::vector<double> of_rows(batch.labels.size());
    if constexpr (is_of_rows<Loss>) {
      for (size_t row = 0; row < of_rows.size(); ++row) of_rows[row] = of_row(batch, row);
    } else {
      loss_.evaluated(columns_of(batch), batch.labels, batch.groups, of_rows);
    }
    for (size_t row = 0; row < of_rows.size(); ++row) mean_.add(of_rows[row], batch.weight(row));
  }

 private:
  void need_logits(const MetricBatch& batch) const {
    EMBLEM_REQUIRE(batch.logits.size() == batch.labels.size(), "loss ", name(),
                   " needs a logit per row, but the batch has ", batch.logits.size(), " for ",
                   batch.labels.size());
  }
  void need_class_logits(const MetricBatch& batch) const {
    EMBLEM_REQUIRE(batch.classes > 1 && !batch.class_logits.empty(), "loss ", name(),
                   " needs a logit for each class");
    for (const float label : batch.labels) {
      EMBLEM_REQUIRE(label >= 0 && label < static_cast<float>(batch.classes), "loss ", name(),
                     " needs labels 0 to ", batch.classes - 1, ", but found ", label);
    }
  }

  // What the loss reads of each row.
  static std::span<const float> columns_of(const MetricBatch& batch) {
    return Loss::kHead == HeadKind::kClass    ? batch.class_logits
           : Loss::kHead == HeadKind::kBinary ? batch.logits
                                              : batch.predictions;
  }

  double of_row(const MetricBatch& batch, size_t row) const {
    const int64_t cols = Loss::kHead == HeadKind::kClass ? batch.classes : 1;
    const float* first = columns_of(batch).data() + row * static_cast<size_t>(cols);
    const auto x = [first](int64_t c) { return first[c]; };
    const double label = batch.labels[row];
    if constexpr (requires { loss_.evaluated(x, cols, label); })
      return loss_.evaluated(x, cols, label);
    else
      return loss_.value(x, cols, label);
  }

  Loss loss_;
  double factor_;
  WeightedMean mean_;
};

}  // namespace

std::unique_ptr<Metric> make_loss_metric(const AnyLoss& loss, double factor, std::string name) {
  return std::visit(
      [&](const auto& one) -> std::unique_ptr<Metric> {
        return std::make_unique<LossMetric<std::decay_t<decltype(one)>>>(one, factor,
                                                                         std::move(name));
      },
      loss);
}

}  // namespace emblem
