#include "data/synth/pipeline_block.h"

#include <algorithm>

#include "data/format/csv_field.h"
#include "data/format/csv_types.h"
#include "data/synth/pipeline_text.h"
#include "emblem/error.h"

namespace emblem {

PipelineBlocks::PipelineBlocks(const SynthPlan& plan, const PipelineTruth& truth)
    : plan_(plan), truth_(truth) {
  const auto add = [&](const std::string& name, ColumnType type) {
    schema_.push_back({name, type});
    requests_.push_back({.name = name, .type = type});
  };
  for (const PlanLabel& label : plan.labels) {
    if (label.column >= 0) continue;
    add(label.name, label.kind == LabelKind::kNumber ? ColumnType::kFloat : ColumnType::kInt64);
  }
  for (const std::string& name : plan.weight_fields) add(name, ColumnType::kFloat);
  for (const PlanColumn& column : plan.columns) add_column(column);
}

void PipelineBlocks::add_column(const PlanColumn& column) {
  using Form = PlanColumn::Form;
  ColumnRequest request{.name = column.name, .type = ColumnType::kText};
  const bool is_ids = column.form == Form::kIds;
  if (is_ids && plan_.domains[column.domain].form == PlanDomain::Form::kInteger)
    request.type = ColumnType::kInt64;
  if (column.form == Form::kNumbers)
    request.type =
        column.are_counts || column.are_dates ? ColumnType::kInt64 : ColumnType::kFloat;
  // Maps, masks and phrases are text with a grammar of their own.
  const bool has_lists = is_ids || column.form == Form::kNumbers;
  if (has_lists && column.sequence >= 0) {
    request.sequence_delim = column.sequence_delim;
  } else if (has_lists && (column.most_values > 1 || column.is_weighted)) {
    request.separators = column.separator;
  }
  request.weighted = is_ids && column.is_weighted && !request.separators.empty();
  schema_.push_back({column.name, request.type, request.has_bags() ? 1 : 0, request.weighted});
  requests_.push_back(std::move(request));
}

void PipelineBlocks::fill(const std::vector<PlanRow>& rows, Block& block) const {
  const MissingTexts missing({});
  block.rows = static_cast<int64_t>(rows.size());
  block.columns.resize(schema_.size());
  for (size_t i = 0; i < requests_.size(); ++i) {
    Column& column = block.columns[i];
    column.clear(requests_[i].type);
    const size_t fixed = requests_[i].has_bags() ? 0 : rows.size();
    if (column.type == ColumnType::kFloat) column.floats.resize(fixed);
    if (column.type == ColumnType::kInt64) column.ints.resize(fixed);
    if (column.type == ColumnType::kInt64) column.missing.resize(fixed);
    if (requests_[i].has_bags()) column.offsets.push_back(0);
    if (!requests_[i].sequence_delim.empty()) column.sequence_offsets.push_back(0);
  }
  std::vector<std::string> fields;
  for (size_t row = 0; row < rows.size(); ++row) {
    write_fields(plan_, truth_, rows[row], fields);
    for (size_t i = 0; i < requests_.size(); ++i) {
      const CsvFieldParser parser(requests_[i], missing, block.columns[i]);
      const std::string problem = parser.add(fields[i], static_cast<int64_t>(row));
      EMBLEM_REQUIRE(problem.empty(), "column ", requests_[i].name, ": ", problem);
    }
  }
  for (Column& column : block.columns) drop_plain_offsets(column);
}

}  // namespace emblem
