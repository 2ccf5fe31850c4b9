#include "train/restored.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "config/check.h"
#include "config/load.h"
#include "config/metrics.h"
#include "core/file.h"
#include "core/log.h"
#include "model/probability.h"
#include "train/run_state.h"

namespace emblem {
namespace {

config::PipelineConfig configuration(const std::string& checkpoint, const std::string& config,
                                     std::span<const std::string> overrides) {
  if (config.empty()) return load_stored_pipeline(checkpoint, overrides);
  config::PipelineConfig given = load_pipeline(config, overrides);
  adopt_semantics(load_stored_pipeline(checkpoint), checkpoint, &given);
  return given;
}

}  // namespace

RestoredModel::RestoredModel(const Context& context, const std::string& checkpoint,
                             const std::string& config, std::span<const std::string> overrides)
    : context_(context) {
  const std::string path = find_checkpoint(checkpoint);
  config_ = configuration(path, config, overrides);
  check_pipeline(config_);
  layout_ = layout_of(config_);
  learner_ = std::make_unique<Learner>(context, config_, layout_, loader_options("").batch_size);
  load_run(path, *learner_, Restore::kWeights);
}

LoaderOptions RestoredModel::loader_options(const std::string& input) const {
  LoaderOptions options = evaluation_loader_options(config_);
  if (input.empty()) return options;
  options.input = input;
  options.rows = RowPart::kAll;
  return options;
}

Evaluation RestoredModel::evaluate(const std::string& input) {
  const LoaderOptions options = loader_options(input);
  EMBLEM_REQUIRE(!options.input.empty(),
                 "nothing to evaluate on; give --input, or set eval_input_path or "
                 "data_config.holdout_ratio");
  for (const std::string& note : metric_notes(config_.model_config())) log_info(note);
  const auto evaluation = emblem::evaluate(context_, model(), config_, layout_, options);
  if (!evaluation) throw Error(ErrorCode::kCancelled, "interrupted: the evaluation is incomplete");
  return *evaluation;
}

int64_t RestoredModel::predict(const std::string& input, const std::string& out) {
  const std::string temporary = out + ".tmp";
  LoaderOptions options = loader_options(input);
  options.label_check = LabelCheck::kIgnore;
  int64_t rows = 0;
  try {
    FileWriter file(temporary);
    file.write("prediction\n");
    fmt::memory_buffer text;
    const auto take = [&](const Batch& batch, View<const float> logits) {
      text.clear();
      for (int64_t row = 0; row < batch.rows; ++row) {
        fmt::format_to(std::back_inserter(text), "{}\n", probability_of(logits.data[row]));
      }
      file.write({text.data(), text.size()});
      rows += batch.rows;
    };
    if (!for_each_prediction(context_, model(), config_, layout_, options, "predicting", take))
      throw Error(ErrorCode::kCancelled, cat("interrupted: ", out, " was not written"));
    file.finish();
    std::filesystem::rename(temporary, out);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  return rows;
}

std::string to_json(const Evaluation& evaluation) {
  nlohmann::json json;
  for (const auto& [name, value] : evaluation.metrics) {
    if (std::isnan(value))
      json[name] = nullptr;
    else
      json[name] = value;
  }
  json["rows"] = evaluation.rows;
  return json.dump();
}

}  // namespace emblem
