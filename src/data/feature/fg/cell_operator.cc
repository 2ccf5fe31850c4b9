#include "data/feature/fg/cell_operator.h"

#include <algorithm>

namespace emblem {

CellOperator::CellOperator(const FeatureSpec& feature, std::vector<FgInput> inputs,
                           ColumnType output)
    : title_(cat("feature \"", feature.name, "\"")) {
  EMBLEM_REQUIRE(feature.inputs.size() == inputs.size(), title_, " has ", feature.inputs.size(),
                 " inputs, expected ", inputs.size());
  inputs_ = std::move(inputs);
  output_ = output;
  constants_.resize(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (feature.inputs[i].source == FeatureInput::Source::kConstant)
      constants_[i] = constant_column(feature.inputs[i].name, inputs_[i], feature.name);
  }
}

void CellOperator::apply(std::span<const Column* const> inputs, int64_t rows, Column& out,
                         const ReportRow& report) const {
  Cells cells = cells_of(inputs, rows);
  std::vector<CellReader> readers;
  readers.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_constant = inputs[i] == nullptr;
    readers.emplace_back(is_constant ? constants_[i] : *inputs[i], cells, is_constant);
  }
  if (cells.are_elements) refuse_long_rows(readers, cells, report);
  CellWriter writer(out, output_);
  compute(readers, cells, writer, report);
  writer.finish(cells);
}

void CellOperator::refuse_long_rows(std::span<const CellReader> inputs, Cells& cells,
                                    const ReportRow& report) const {
  for (size_t row = 0; row + 1 < cells.first_of_row.size(); ++row) {
    const int64_t first = cells.first_of_row[row];
    const int64_t elements = cells.first_of_row[row + 1] - first;
    if (elements == 0) continue;
    int64_t values = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].is_of_row() || is_read_once(i)) continue;
      const ValueRange range = inputs[i].values(first);
      const int64_t count =
          std::max(static_cast<int64_t>(range.size()), inputs[i].text_bytes(range) / kValueBytes);
      if (count > 1) values += count;  // sequences may be long where a row has a value or two
    }
    if (values == 0 || elements <= kMostReadAgain / values) continue;
    cells.refused.resize(cells.first_of_row.size() - 1);
    cells.refused[row] = 1;
    report(static_cast<int64_t>(row),
           cat(title_, ": each of the ", elements, " elements of a sequence reads ", values,
               " values of its row, expected at most ", kMostReadAgain, " values in all"));
  }
}

}  // namespace emblem
