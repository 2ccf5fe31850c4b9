#include "train/prediction_file.h"

#include <fmt/format.h>

#include <vector>

#include "data/format/kept_columns.h"
#include "model/probability.h"

namespace emblem {

PredictionFile::PredictionFile(const std::string& path, std::span<const std::string> keep)
    : file_(path) {
  std::vector<std::string> names(keep.begin(), keep.end());
  names.emplace_back(kPredictionColumn);
  file_.write(csv_line(names) + "\n");
}

void PredictionFile::add(const Batch& batch, View<const float> logits) {
  fmt::memory_buffer text;
  const bool keeps = batch.kept.rows() > 0;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto at = static_cast<size_t>(row);
    if (keeps) {
      text.append(batch.kept[at]);
      text.push_back(',');
    }
    if (batch.bad.empty() || batch.bad[at] == 0)
      fmt::format_to(std::back_inserter(text), "{}", probability_of(logits.data[row]));
    else if (!keeps)
      text.append(std::string_view("\"\""));
    text.push_back('\n');
  }
  file_.write({text.data(), text.size()});
}

}  // namespace emblem
