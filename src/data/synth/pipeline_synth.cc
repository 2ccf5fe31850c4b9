#include "data/synth/pipeline_synth.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "config/feature/metrics.h"
#include "core/text/joined.h"
#include "core/text/parse_number.h"
#include "data/format/decoder.h"
#include "data/format/text/csv_field.h"
#include "data/format/text/csv_types.h"
#include "data/synth/data_set.h"
#include "data/synth/pipeline_text.h"
#include "data/synth/pipeline_truth.h"
#include "data/synth/score_summary.h"
#include "data/tree/item_table.h"
#include "data/tree/tree_files.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Synthetic rows as blocks of columns: bags and sequences as what they are, for formats with lists.
// Made once; fill may run concurrently. Borrows what it is made from.
class PipelineBlocks {
 public:
  PipelineBlocks(const PipelineSchema& schema, const PipelineTruth& truth);

  // The columns of the blocks: labels, weights, inputs of features.
  const std::vector<ColumnSpec>& specs() const { return specs_; }

  // Overwrites `block`. Values are those that a CSV file of the same rows has.
  void fill(const std::vector<PipelineRow>& rows, Block& block) const;

 private:
  void add_column(const PipelineColumn& column);

  const PipelineSchema& schema_;
  const PipelineTruth& truth_;
  std::vector<ColumnSpec> specs_;
  std::vector<ColumnRequest> requests_;
};

PipelineBlocks::PipelineBlocks(const PipelineSchema& schema, const PipelineTruth& truth)
    : schema_(schema), truth_(truth) {
  const auto add = [&](const std::string& name, ColumnType type) {
    specs_.push_back({name, type});
    requests_.push_back({.name = name, .type = type});
  };
  for (const PipelineLabel& label : schema.labels) {
    if (label.column >= 0) continue;
    add(label.name, label.kind == LabelKind::kNumber ? ColumnType::kFloat : ColumnType::kInt64);
  }
  for (const std::string& name : schema.weight_fields) add(name, ColumnType::kFloat);
  for (const PipelineColumn& column : schema.columns) add_column(column);
}

void PipelineBlocks::add_column(const PipelineColumn& column) {
  using Form = PipelineColumn::Form;
  ColumnRequest request{.name = column.name, .type = ColumnType::kText};
  const bool is_ids = column.form == Form::kIds;
  if (is_ids && schema_.domains[column.domain].form == PipelineDomain::Form::kInteger)
    request.type = ColumnType::kInt64;
  if (column.form == Form::kNumbers)
    request.type = column.are_counts || column.are_dates ? ColumnType::kInt64 : ColumnType::kFloat;
  // Maps, masks and phrases are text with a grammar of their own.
  const bool has_lists = is_ids || column.form == Form::kNumbers;
  if (has_lists && column.sequence >= 0) {
    request.sequence_delim = column.sequence_delim;
  } else if (has_lists && (column.most_values > 1 || column.is_weighted)) {
    request.separators = column.separator;
  }
  request.weighted = is_ids && column.is_weighted && !request.separators.empty();
  specs_.push_back({column.name, request.type, request.has_bags() ? 1 : 0, request.weighted});
  requests_.push_back(std::move(request));
}

void PipelineBlocks::fill(const std::vector<PipelineRow>& rows, Block& block) const {
  const MissingTexts missing({});
  block.rows = static_cast<int64_t>(rows.size());
  block.columns.resize(specs_.size());
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
    write_fields(schema_, truth_, rows[row], fields);
    for (size_t i = 0; i < requests_.size(); ++i) {
      const CsvFieldParser parser(requests_[i], missing, block.columns[i]);
      const std::string problem = parser.add(fields[i], static_cast<int64_t>(row));
      EMBLEM_REQUIRE(problem.empty(), "column ", requests_[i].name, ": ", problem);
    }
  }
  for (Column& column : block.columns) drop_plain_offsets(column);
}

namespace fs = std::filesystem;

constexpr int64_t kPipelineChunkRows = 1024;

// How good the truth is as the prediction of one head. A head that learns only the rows of its task
// space cannot know the label's chance outside of it: its truth is that within the space.
class HeadScore {
 public:
  HeadScore(const HeadSpec& head, const PipelineLabel& label) : head_(head), label_(label) {
    for (const config::MetricConfig& metric : head.metrics)
      if (metric.has_accuracy()) top_k_ = metric.accuracy().top_k();
  }

  void add(const PipelineRow& row) {
    const auto at = static_cast<size_t>(head_.label);
    const double label = row.labels[at];
    const double truth = is_conditional() ? row.truths_given_parent[at] : row.truths[at];
    ++rows_;
    if (is_binary()) {
      scores_.add(truth, static_cast<float>(label));
      right_ += (truth > 0) == (label > 0.5) ? 1 : 0;
    } else if (label_.kind == LabelKind::kClass) {
      const std::vector<double>& of = row.class_probabilities[at];
      const double own = of[static_cast<size_t>(label)];
      const auto before = std::count_if(of.begin(), of.end(), [&](double p) { return p > own; });
      right_ += before < top_k_ ? 1 : 0;
    } else {
      squares_ += (label - truth) * (label - truth);
      distances_ += std::fabs(label - truth);
    }
  }

  // Those that evaluations report, too.
  void report(std::vector<std::pair<std::string, double>>& to) const {
    const std::vector<std::string> reported = metric_names(head_);
    const auto add = [&](const char* metric, double value) {
      const std::string name = head_.named(metric);
      if (std::find(reported.begin(), reported.end(), name) != reported.end())
        to.emplace_back(name, value);
    };
    const auto rows = static_cast<double>(std::max<int64_t>(1, rows_));
    if (is_binary()) {
      add("auc", scores_.auc());
      add("log_loss", scores_.log_loss());
    }
    if (label_.kind == LabelKind::kNumber) {
      add("mean_squared_error", squares_ / rows);
      add("mean_absolute_error", distances_ / rows);
    } else {
      add("accuracy", static_cast<double>(right_) / rows);
    }
  }

 private:
  bool is_conditional() const {
    return head_.indicator >= 0 && head_.indicator == label_.parent && head_.out_space == 0;
  }
  bool is_binary() const {
    return label_.kind == LabelKind::kBinary ||
           (label_.kind == LabelKind::kClass && label_.classes <= 2);
  }

  const HeadSpec& head_;
  const PipelineLabel& label_;
  ScoreSummary scores_;
  int64_t top_k_ = 1;
  int64_t rows_ = 0, right_ = 0;
  double squares_ = 0, distances_ = 0;
};

class SplitWriter {
 public:
  SplitWriter(const Context& context, const PipelineSchema& schema, const PipelineTruth& truth,
              const PipelineSynthOptions& options)
      : context_(context),
        schema_(schema),
        truth_(truth),
        options_(options),
        blocks_(schema, truth) {
    for (const HeadSpec& head : schema.heads)
      scores_.emplace_back(head, schema.labels[static_cast<size_t>(head.label)]);
  }

  // Returns the bytes.
  int64_t write(const fs::path& folder, SynthSplit split, int64_t rows, Progress& progress,
                int64_t rows_before) {
    if (options_.format != "csv") {
      const auto writer =
          make_writer(options_.format, folder.string(), blocks_.specs(), options_.writing);
      draw(split, rows, progress, rows_before, writer.get(),
           [&](const Chunk& chunk) { writer->append(chunk.encoded); });
      writer->finish();
      return writer->bytes_written();
    }
    fs::create_directories(folder);
    FileWriter file((folder / "part-00000.csv").string());
    file.write(csv_header(schema_));
    draw(split, rows, progress, rows_before, nullptr,
         [&](const Chunk& chunk) { file.write(chunk.text); });
    file.finish();
    return static_cast<int64_t>(file.bytes_written());
  }

  std::vector<std::pair<std::string, double>> best() const {
    std::vector<std::pair<std::string, double>> best;
    for (const HeadScore& score : scores_) score.report(best);
    return best;
  }

 private:
  struct Chunk {
    std::vector<PipelineRow> rows;
    std::string text;
    Block block;
    EncodedRows encoded;
  };

  // Draws all rows and gives them to `write`, chunk by chunk: as text, or encoded by `writer`.
  template <class Write>
  void draw(SynthSplit split, int64_t rows, Progress& progress, int64_t rows_before,
            const RowWriter* writer, const Write& write) {
    const auto draw_rows = [&](Chunk& chunk, int64_t begin, int64_t end) {
      fill(chunk, split, begin, end, writer);
    };
    write_chunks<Chunk>(context_, rows, kPipelineChunkRows, progress, rows_before, draw_rows,
                        [&](const Chunk& chunk) {
                          write(chunk);
                          for (const PipelineRow& row : chunk.rows)
                            for (HeadScore& score : scores_) score.add(row);
                        });
  }

  void fill(Chunk& chunk, SynthSplit split, int64_t begin, int64_t end,
            const RowWriter* writer) const {
    chunk.rows.resize(static_cast<size_t>(end - begin));
    chunk.text.clear();
    for (int64_t i = begin; i < end; ++i) {
      PipelineRow& row = chunk.rows[static_cast<size_t>(i - begin)];
      truth_.draw(split, i, row);
      if (writer == nullptr) append_csv(schema_, truth_, row, chunk.text);
    }
    if (writer == nullptr) return;
    blocks_.fill(chunk.rows, chunk.block);
    writer->encode(chunk.block, begin, chunk.encoded);
  }

  const Context& context_;
  const PipelineSchema& schema_;
  const PipelineTruth& truth_;
  const PipelineSynthOptions& options_;
  PipelineBlocks blocks_;
  std::vector<HeadScore> scores_;
};

std::string metadata(const PipelineSynthOptions& options, const PipelineSynthResult& result) {
  nlohmann::ordered_json best = nlohmann::ordered_json::object();
  for (const auto& [metric, value] : result.best) best[metric] = value;
  nlohmann::ordered_json json = {{"pipeline", options.name},
                                 {"format", options.format},
                                 {"rows", result.rows},
                                 {"test_rows", result.test_rows},
                                 {"columns", result.columns},
                                 {"seed", options.seed},
                                 {"alpha", options.alpha},
                                 {"divide_tables", options.divide_tables},
                                 // On the test split: no model can be expected to pass it.
                                 {"best", best}};
  return json.dump(2) + "\n";
}

}  // namespace

namespace {

// Calls take(rank, texts of the attributes) for all items.
template <class Take>
void each_item(const PipelineSchema& schema, const PipelineTruth& truth, const Take& take) {
  const PipelineItems& items = *schema.items;
  PipelineRow row;
  truth.draw(SynthSplit::kTest, 0, row);
  std::vector<std::string> fields, texts;
  const int64_t count = schema.domains[schema.columns[items.id].domain].values;
  for (int64_t rank = 0; rank < count; ++rank) {
    truth.draw_item(rank, row);
    write_fields(schema, truth, row, fields);
    const size_t first = fields.size() - schema.columns.size();
    texts.clear();
    for (const size_t at : items.attributes) texts.push_back(std::move(fields[first + at]));
    take(rank, texts);
  }
}

// All items with their attributes, as data_config.negative_sampler reads them; returns the bytes.
int64_t write_items(const fs::path& path, const PipelineSchema& schema,
                    const PipelineTruth& truth) {
  const PipelineItems& items = *schema.items;
  const char between = items.sampler.field_delimiter;
  const size_t domain = schema.columns[items.id].domain;
  FileWriter file(path.string());
  file.write(cat("id:int64", between, "weight:float", between, "attrs:string\n"));
  each_item(schema, truth, [&](int64_t rank, const std::vector<std::string>& texts) {
    file.write(cat(truth.number_of(domain, rank), between, 1e6 * truth.probability_of(domain, rank),
                   between, joined(texts, std::string(1, items.sampler.attr_delimiter)), "\n"));
  });
  file.finish();
  return static_cast<int64_t>(file.bytes_written());
}

// The tree of all items by their first attribute besides the id; returns the bytes.
int64_t write_tree_of_items(const fs::path& folder, const PipelineSchema& schema,
                            const PipelineTruth& truth) {
  const PipelineItems& items = *schema.items;
  ItemTable table;
  ItemTableColumns columns;
  for (const size_t at : items.attributes)
    if (at != items.id) columns.attributes.push_back(schema.columns[at].name);
  table.attributes.resize(columns.attributes.size());
  each_item(schema, truth, [&](int64_t, const std::vector<std::string>& texts) {
    size_t column = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      if (items.attributes[i] == items.id)
        table.ids.push_back(parse_number<int64_t>(texts[i]).value());
      else
        table.attributes[column++].push_back(texts[i]);
    }
    table.categories.push_back(table.attributes.empty() ? "" : table.attributes[0].back());
  });
  write_item_tree(table, columns, order_by_category(table), 2, items.sampler.attr_delimiter,
                  folder.string());
  int64_t bytes = 0;
  for (const char* name : {kNodeTable, kEdgeTable, kPredictEdgeTable})
    bytes += static_cast<int64_t>(fs::file_size(folder / name));
  return bytes;
}

}  // namespace

PipelineSynthResult synthesize_for(const Context& context, const config::PipelineConfig& config,
                                   const PipelineSynthOptions& options) {
  EMBLEM_REQUIRE(options.rows > 0, "the number of rows is ", options.rows, "; expected 1 or more");
  EMBLEM_REQUIRE(options.alpha >= 0 && options.alpha <= 10, "alpha is ", options.alpha,
                 "; expected 0 (uniform) to 10");
  EMBLEM_REQUIRE(options.divide_tables > 0, "divide_tables is ", options.divide_tables,
                 "; expected 1 or more");
  EMBLEM_REQUIRE(options.format == "csv" || options.format == "parquet" ||
                     options.format == "orc" || options.format == "arrow",
                 "data for a pipeline cannot be written as ", options.format,
                 "; expected csv, parquet, orc or arrow");
  const PipelineSchema schema = schema_for(config, options.divide_tables);
  const PipelineTruth truth(schema, options.seed, options.alpha);
  PipelineSynthResult result;
  result.rows = options.rows;
  result.test_rows = test_rows_of(options.test_rows, options.rows);
  result.columns = static_cast<int64_t>(schema.labels.size() + schema.weight_fields.size() +
                                        schema.columns.size());
  OutputFolder folder(options.out, options.writing.overwrite);
  Progress progress("synth", result.rows + result.test_rows);
  const fs::path path(folder.path());
  SplitWriter train(context, schema, truth, options), test(context, schema, truth, options);
  result.bytes = train.write(path / "train", SynthSplit::kTrain, result.rows, progress, 0);
  result.bytes +=
      test.write(path / "test", SynthSplit::kTest, result.test_rows, progress, result.rows);
  if (schema.items && schema.items->have_tree)
    result.bytes += write_tree_of_items(path, schema, truth);
  else if (schema.items)
    result.bytes += write_items(path / "items.txt", schema, truth);
  result.best = test.best();
  finish_data_set(folder, metadata(options, result), progress);
  return result;
}

}  // namespace emblem
