#include "data/feature/fg/cell_operator.h"

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
  const Cells cells = cells_of(inputs, rows);
  std::vector<CellReader> readers;
  readers.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_constant = inputs[i] == nullptr;
    readers.emplace_back(is_constant ? constants_[i] : *inputs[i], cells, is_constant);
  }
  CellWriter writer(out, output_);
  compute(readers, cells, writer, report);
  writer.finish(cells);
}

}  // namespace emblem
