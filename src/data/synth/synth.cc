#include "data/synth/synth.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/synth/data_set.h"
#include "data/synth/planted_truth.h"
#include "data/synth/score_summary.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

struct Tables {
  const char* name;
  std::vector<int64_t> cardinalities;
};

// Cardinalities of published preparations of the Criteo data sets, C1 to C26.
const std::vector<Tables>& all_tables() {
  static const std::vector<Tables> tables = {
      // HugeCTR's samples on a part of the Kaggle set.
      {"kaggle",
       {203931, 18598, 14092, 7012, 18977, 4,  6385,   1245,   49,     186213, 71328, 67288, 11,
        2168,   7338,  61,    4,    932,   15, 204515, 141526, 199433, 60919,  9137,  71,    34}},
      // The terabyte set without values that occur less than 15 times.
      {"fl15", {7912889, 33823,   17139,   7339,    20046,  4,     7105, 1382, 63,
                5554114, 582469,  245828,  11,      2209,   10667, 104,  4,    968,
                15,      8165896, 2675940, 7156453, 302516, 12022, 97,   35}},
      // The terabyte set modulo 40 million.
      {"criteo-40m", {39884406, 39043,    17289,    7420,     20263,  3,     7120, 1543, 63,
                      38532951, 2953546,  403346,   10,       2208,   11938, 155,  4,    976,
                      14,       39979771, 25641295, 39664984, 585935, 12972, 108,  36}},
  };
  return tables;
}

constexpr int64_t kSynthChunkRows = 4096;

struct Chunk {
  Block block;
  EncodedRows encoded;
  std::vector<double> logits;
  SynthRow row;
};

void resize_columns(Block& block, const SynthModel& model, int64_t rows) {
  const auto schema =
      static_cast<size_t>(1 + model.shape().num_dense) + model.shape().cardinalities.size();
  block.rows = rows;
  block.columns.resize(schema);
  for (size_t i = 0; i < schema; ++i) {
    Column& column = block.columns[i];
    if (i <= static_cast<size_t>(model.shape().num_dense)) {
      column.type = ColumnType::kFloat;
      column.floats.resize(static_cast<size_t>(rows));
    } else {
      column.type = ColumnType::kInt64;
      column.ints.resize(static_cast<size_t>(rows));
      column.missing.resize(model.shape().missing_sparse > 0 ? static_cast<size_t>(rows) : 0);
    }
  }
}

void fill(const SynthModel& model, SynthSplit split, int64_t begin, int64_t end, Chunk& chunk) {
  resize_columns(chunk.block, model, end - begin);
  chunk.logits.resize(static_cast<size_t>(end - begin));
  std::vector<Column>& columns = chunk.block.columns;
  const size_t first_key = 1 + static_cast<size_t>(model.shape().num_dense);
  SynthRow& row = chunk.row;
  for (int64_t i = 0; i < end - begin; ++i) {
    model.draw(split, begin + i, row);
    chunk.logits[i] = row.logit;
    columns[0].floats[i] = row.label;
    for (size_t d = 0; d < row.dense.size(); ++d) columns[1 + d].floats[i] = row.dense[d];
    for (size_t f = 0; f < row.ranks.size(); ++f) {
      Column& column = columns[first_key + f];
      const bool missing = row.ranks[f] < 0;
      column.ints[i] = missing ? 0 : model.key(f, row.ranks[f]);
      if (!column.missing.empty()) column.missing[i] = missing;
    }
  }
}

SynthSplitResult write_split(const Context& context, const SynthModel& model, SynthSplit split,
                             int64_t rows, RowWriter& writer, Progress& progress,
                             int64_t rows_before) {
  ScoreSummary scores;
  const auto draw = [&](Chunk& chunk, int64_t begin, int64_t end) {
    fill(model, split, begin, end, chunk);
    writer.encode(chunk.block, begin, chunk.encoded);
  };
  write_chunks<Chunk>(context, rows, kSynthChunkRows, progress, rows_before, draw,
                      [&](const Chunk& chunk) {
                        writer.append(chunk.encoded);
                        for (int64_t i = 0; i < chunk.block.rows; ++i)
                          scores.add(chunk.logits[i], chunk.block.columns[0].floats[i]);
                      });
  writer.finish();
  return {scores.rows(), scores.label_mean(), scores.auc(), scores.log_loss()};
}

nlohmann::ordered_json to_json(const SynthSplitResult& result) {
  return {{"rows", result.rows},
          {"label_mean", result.label_mean},
          {"best_auc", result.best_auc},
          {"best_log_loss", result.best_log_loss}};
}

std::string metadata(const SynthOptions& options, const SynthShape& shape,
                     const SynthResult& result) {
  const nlohmann::ordered_json json = {
      {"preset", "criteo"},
      {"format", options.format},
      {"rows", result.train.rows},
      {"test_rows", result.test.rows},
      {"seed", options.seed},
      {"alpha", options.alpha},
      {"num_dense", shape.num_dense},
      {"num_sparse", shape.cardinalities.size()},
      {"cardinalities", shape.cardinalities},
      {"missing_dense", shape.missing_dense},
      {"missing_sparse", shape.missing_sparse},
      {"label_mean", result.train.label_mean},
      // The AUC on the test split: what no model can be expected to pass.
      {"best_auc", result.test.best_auc},
      {"best_log_loss", result.test.best_log_loss},
      {"train", to_json(result.train)},
      {"test", to_json(result.test)},
  };
  return json.dump(2) + "\n";
}

bool may_have_missing(const std::string& format) { return format != "raw" && format != "split"; }

SynthShape shape_of(const SynthOptions& options) {
  SynthShape shape;
  shape.seed = options.seed;
  shape.alpha = options.alpha;
  shape.num_dense = options.num_dense;
  shape.cardinalities = synth_cardinalities(options);
  const bool may_miss = may_have_missing(options.format);
  shape.missing_dense = options.missing_dense.value_or(may_miss ? 0.05 : 0.0);
  shape.missing_sparse = options.missing_sparse.value_or(may_miss ? 0.03 : 0.0);
  EMBLEM_REQUIRE(may_miss || (shape.missing_dense == 0 && shape.missing_sparse == 0),
                 "missing values cannot be written as ", options.format,
                 "; leave them at 0 or write another format");
  return shape;
}

}  // namespace

std::vector<int64_t> synth_cardinalities(const SynthOptions& options) {
  std::vector<int64_t> base = options.cardinalities;
  if (base.empty()) {
    EMBLEM_REQUIRE(options.scale > 0, "the scale of the tables is ", options.scale,
                   "; expected more than 0");
    std::string choices;
    for (const Tables& tables : all_tables()) {
      if (options.tables == tables.name) base = tables.cardinalities;
      choices += (choices.empty() ? "" : ", ") + std::string(tables.name);
    }
    EMBLEM_REQUIRE(!base.empty(), "unknown tables '", options.tables, "'; expected one of ",
                   choices);
    for (int64_t& values : base) {
      values = std::max<int64_t>(2, std::llround(static_cast<double>(values) * options.scale));
    }
  }
  if (options.num_sparse < 0) return base;
  std::vector<int64_t> wanted;
  for (size_t i = 0; i < static_cast<size_t>(options.num_sparse); ++i)
    wanted.push_back(base[i % base.size()]);
  return wanted;
}

SynthResult synthesize(const Context& context, const SynthOptions& options) {
  EMBLEM_REQUIRE(options.rows > 0, "the number of rows is ", options.rows, "; expected 1 or more");
  const int64_t test_rows = test_rows_of(options.test_rows, options.rows);
  const SynthShape shape = shape_of(options);
  const std::vector<ColumnSpec> schema =
      criteo_schema(shape.num_dense, static_cast<int>(shape.cardinalities.size()));
  WriterOptions writing = options.writing;
  writing.cardinalities = shape.cardinalities;

  OutputFolder folder(options.out, writing.overwrite);
  const SynthModel model(shape);
  Progress progress("synth", options.rows + test_rows);
  progress.update(0);
  SynthResult result;
  result.cardinalities = shape.cardinalities;
  const auto write = [&](const char* name, SynthSplit split, int64_t rows, int64_t rows_before) {
    const auto writer =
        make_writer(options.format, (fs::path(folder.path()) / name).string(), schema, writing);
    const SynthSplitResult written =
        write_split(context, model, split, rows, *writer, progress, rows_before);
    result.bytes += writer->bytes_written();
    return written;
  };
  result.train = write("train", SynthSplit::kTrain, options.rows, 0);
  result.test = write("test", SynthSplit::kTest, test_rows, options.rows);
  finish_data_set(folder, metadata(options, shape, result), progress);
  return result;
}

}  // namespace emblem
