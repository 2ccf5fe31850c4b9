#include "train/predict/own_metrics.h"

namespace emblem {

RowCollector::RowCollector(std::vector<HeadSpec> heads)
    : heads_(std::move(heads)), outputs_(choose_outputs(heads_, {})) {}

void RowCollector::add(const Batch& batch, const std::vector<View<const float>>& logits) {
  const std::vector<std::vector<float>> values =
      output_values(heads_, outputs_, batch.rows, logits);
  const auto append = [](const auto& from, size_t row, size_t columns, std::vector<float>& to) {
    to.insert(to.end(), from.begin() + row * columns, from.begin() + (row + 1) * columns);
  };
  for (size_t row = 0; row < static_cast<size_t>(batch.rows); ++row) {
    if (!batch.bad.empty() && batch.bad[row] != 0) continue;
    append(batch.labels, row, batch.labels.size() / static_cast<size_t>(batch.rows), rows_.labels);
    for (size_t i = 0; i < outputs_.size(); ++i)
      append(values[i], row, static_cast<size_t>(outputs_[i].cols), rows_.predictions);
    ++rows_.rows;
  }
}

}  // namespace emblem
