#include "data/synth/pipeline_synth.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/metrics.h"
#include "core/file.h"
#include "core/progress.h"
#include "core/thread_pool.h"
#include "data/synth/pipeline_block.h"
#include "data/synth/pipeline_text.h"
#include "data/synth/score_summary.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kChunkRows = 1024;
constexpr int64_t kChunksAtOnce = 16;

// How good the truth is as the prediction of one head. A head that learns only the rows of its task
// space cannot know the label's chance outside of it: its truth is that within the space.
class HeadScore {
 public:
  HeadScore(const HeadSpec& head, const PlanLabel& label) : head_(head), label_(label) {
    for (const config::MetricConfig& metric : head.metrics)
      if (metric.has_accuracy()) top_k_ = metric.accuracy().top_k();
  }

  void add(const PlanRow& row) {
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
  const PlanLabel& label_;
  ScoreSummary scores_;
  int64_t top_k_ = 1;
  int64_t rows_ = 0, right_ = 0;
  double squares_ = 0, distances_ = 0;
};

class SplitWriter {
 public:
  SplitWriter(const Context& context, const SynthPlan& plan, const PipelineTruth& truth,
              const PipelineSynthOptions& options)
      : context_(context), plan_(plan), truth_(truth), options_(options), blocks_(plan, truth) {
    for (const HeadSpec& head : plan.heads)
      scores_.emplace_back(head, plan.labels[static_cast<size_t>(head.label)]);
  }

  // Returns the bytes.
  int64_t write(const fs::path& folder, SynthSplit split, int64_t rows, Progress& progress,
                int64_t rows_before) {
    if (options_.format != "csv") {
      WriterOptions writing;
      writing.columnar = options_.columnar;
      const auto writer = make_writer(options_.format, folder.string(), blocks_.schema(), writing);
      draw(split, rows, progress, rows_before, writer.get(),
           [&](const Chunk& chunk) { writer->append(chunk.encoded); });
      writer->finish();
      return writer->bytes_written();
    }
    fs::create_directories(folder);
    FileWriter file((folder / "part-00000.csv").string());
    file.write(csv_header(plan_));
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
    std::vector<PlanRow> rows;
    std::string text;
    Block block;
    EncodedRows encoded;
  };

  // Draws all rows and gives them to `write`, chunk by chunk: as text, or encoded by `writer`.
  template <class Write>
  void draw(SynthSplit split, int64_t rows, Progress& progress, int64_t rows_before,
            const RowWriter* writer, const Write& write) {
    std::vector<Chunk> chunks(kChunksAtOnce);
    for (int64_t begin = 0; begin < rows; begin += kChunksAtOnce * kChunkRows) {
      const int64_t count = std::min(rows - begin, kChunksAtOnce * kChunkRows);
      parallel_for(context_, count, kChunkRows, [&](int64_t from, int64_t to) {
        fill(chunks[static_cast<size_t>(from / kChunkRows)], split, begin + from, begin + to,
             writer);
      });
      for (int64_t from = 0; from < count; from += kChunkRows) {
        const Chunk& chunk = chunks[static_cast<size_t>(from / kChunkRows)];
        write(chunk);
        for (const PlanRow& row : chunk.rows)
          for (HeadScore& score : scores_) score.add(row);
      }
      progress.update(rows_before + begin + count);
    }
  }

  void fill(Chunk& chunk, SynthSplit split, int64_t begin, int64_t end,
            const RowWriter* writer) const {
    chunk.rows.resize(static_cast<size_t>(end - begin));
    chunk.text.clear();
    for (int64_t i = begin; i < end; ++i) {
      PlanRow& row = chunk.rows[static_cast<size_t>(i - begin)];
      truth_.draw(split, i, row);
      if (writer == nullptr) append_csv(plan_, truth_, row, chunk.text);
    }
    if (writer == nullptr) return;
    blocks_.fill(chunk.rows, chunk.block);
    writer->encode(chunk.block, begin, chunk.encoded);
  }

  const Context& context_;
  const SynthPlan& plan_;
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
                                 // On the test split: what no model can be expected to pass.
                                 {"best", best}};
  return json.dump(2) + "\n";
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
  const SynthPlan plan = plan_for(config, options.divide_tables);
  const PipelineTruth truth(plan, options.seed, options.alpha);
  PipelineSynthResult result;
  result.rows = options.rows;
  result.test_rows =
      options.test_rows < 0 ? std::max<int64_t>(1, options.rows / 10) : options.test_rows;
  result.columns =
      static_cast<int64_t>(plan.labels.size() + plan.weight_fields.size() + plan.columns.size());
  OutputFolder folder(options.out, options.overwrite);
  Progress progress("synth", result.rows + result.test_rows);
  const fs::path path(folder.path());
  SplitWriter train(context, plan, truth, options), test(context, plan, truth, options);
  result.bytes = train.write(path / "train", SynthSplit::kTrain, result.rows, progress, 0);
  result.bytes +=
      test.write(path / "test", SynthSplit::kTest, result.test_rows, progress, result.rows);
  result.best = test.best();
  FileWriter file((path / "metadata.json").string());
  file.write(metadata(options, result));
  file.finish();
  folder.commit();
  progress.finish();
  return result;
}

}  // namespace emblem
