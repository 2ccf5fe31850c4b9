#include "train/run_state.h"

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "config/print.h"
#include "core/host_copy.h"
#include "embedding/files/table_files.h"
#include "emblem/error.h"
#include "emblem/version.h"
#include "train/dense_values.h"

namespace emblem {
namespace {

ManifestTable save_table_into(CheckpointWriter& writer, const Context& context,
                              const Table& table) {
  const TableSettings& settings = table.settings();
  const std::string folder = table_folder(table);
  ManifestTable entry{.name = settings.name,
                      .kind = table.is_static() ? "static" : "dynamic",
                      .dim = settings.dim,
                      .dtype = name_of(settings.dtype),
                      .rows = table.size(),
                      .optimizer = name_of(settings.rule)};
  for (const auto& file : save_table(context, table, writer.path() + "/" + folder)) {
    entry.files.push_back(folder + "/" + file.name);
    writer.add_file(entry.files.back(), {file.bytes, file.checksum});
  }
  return entry;
}

[[noreturn]] void refuse(const Checkpoint& checkpoint, const std::string& difference) {
  throw Error(
      ErrorCode::kInvalidArgument,
      cat(checkpoint.path, " belongs to another model: ", difference,
          "; use the configuration it was trained with (", checkpoint.file(kConfigFile), ")"));
}

// Before anything is loaded: is this the same model?
void compare(const Checkpoint& checkpoint, Model& model) {
  const Manifest& manifest = checkpoint.manifest;
  if (manifest.model != model.name())
    refuse(checkpoint, cat("it is a ", manifest.model, ", not a ", model.name()));
  const auto parameters = model.graph().parameter_list();
  for (const Parameter& parameter : parameters) {
    const auto found =
        std::find_if(manifest.parameters.begin(), manifest.parameters.end(),
                     [&](const ManifestParameter& p) { return p.name == parameter.name; });
    if (found == manifest.parameters.end())
      refuse(checkpoint, cat("it has no parameter ", parameter.name));
    const std::vector<int64_t> shape = {parameter.rows, parameter.cols};
    if (found->shape != shape) {
      refuse(checkpoint, cat("its ", parameter.name, " is ", shape_text(found->shape), ", not ",
                             shape_text(shape)));
    }
  }
  if (manifest.parameters.size() != parameters.size()) {
    refuse(checkpoint, cat("it has ", manifest.parameters.size(), " dense parameters, not ",
                           parameters.size()));
  }
  for (const Table* table : model.tables()) {
    const auto found =
        std::find_if(manifest.tables.begin(), manifest.tables.end(),
                     [&](const ManifestTable& t) { return t.name == table->settings().name; });
    if (found == manifest.tables.end())
      refuse(checkpoint, cat("it has no table ", table->settings().name));
    if (found->dim != table->dim()) {
      refuse(checkpoint,
             cat("its table ", found->name, " has dimension ", found->dim, ", not ", table->dim()));
    }
  }
  if (manifest.tables.size() != model.tables().size()) {
    refuse(checkpoint,
           cat("it has ", manifest.tables.size(), " tables, not ", model.tables().size()));
  }
}

void load_tables(const Checkpoint& checkpoint, const Context& context, LoadMode mode,
                 Model& model) {
  for (Table* table : model.tables())
    load_table(context, checkpoint.file(table_folder(*table)), mode, *table);
}

void load_parameters(const SafetensorsFile& file, const Context& context, DenseWeights weights,
                     Graph& graph) {
  std::vector<float> parameters = to_host(context, graph.parameters());
  std::vector<float> statistics = to_host(context, graph.statistics());
  for (const Parameter& parameter : graph.parameter_list())
    file.read<float>(weights == DenseWeights::kAverage ? average_tensor(parameter) : parameter.name,
                     part_of<float>(parameters, parameter));
  for (const Parameter& statistic : graph.statistic_list())
    file.read<float>(statistic_tensor(statistic), part_of<float>(statistics, statistic));
  to_device(context, parameters, graph.parameters());
  to_device(context, statistics, graph.statistics());
}

void load_training_state(const SafetensorsFile& file, Learner& learner) {
  DenseValues values = read_dense(learner);
  read_training_state(file, learner, values);
  write_dense(learner, values);
}

// "dense" of the main optimizer, "dense_part_0" of the first part.
std::string schedule_name(size_t part) {
  return part == 0 ? "dense" : cat("dense_part_", part - 1);
}

// The part of the manifest that evaluations change.
void describe_evaluations(Learner& learner, const RunState& state, Manifest& manifest) {
  manifest.schedules = {{"sparse", learner.sparse_schedule().state()}};
  for (size_t i = 0; i < learner.dense_parts().size(); ++i)
    manifest.schedules[schedule_name(i)] = learner.dense_parts()[i].schedule->state();
  manifest.early_stopping = state.early_stopping;
  manifest.evaluation_due = state.evaluation_due;
  manifest.only_best = state.only_best;
  manifest.metrics = state.metrics;
}

Manifest describe(Learner& learner, const RunState& state, const config::PipelineConfig& config) {
  Manifest manifest;
  manifest.emblem_version = kVersion;
  manifest.epoch = state.position.epoch;
  manifest.model = learner.model().name();
  for (const Parameter& parameter : learner.model().graph().parameter_list()) {
    manifest.parameters.push_back({parameter.name, {parameter.rows, parameter.cols}});
  }
  manifest.position = state.position;
  manifest.loss_scale = learner.loss_scaler().state();
  manifest.deltas = state.deltas;
  manifest.seeds = {{"train", config.train_config().seed()}};
  describe_evaluations(learner, state, manifest);
  return manifest;
}

// A checkpoint does not depend on the folder it is in.
std::string config_text(config::PipelineConfig config) {
  config.clear_model_dir();
  return to_stored_text(std::move(config));
}

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

std::string table_folder(const Table& table) { return "tables/" + table.settings().name; }

std::string save_run(const std::string& model_dir, Learner& learner, const RunState& state,
                     const StoredPipeline& pipeline) {
  learner.model().check(learner.context());
  CheckpointWriter writer(model_dir, learner.steps());
  Manifest manifest = describe(learner, state, pipeline.config);
  for (const Table* table : learner.model().tables()) {
    manifest.tables.push_back(save_table_into(writer, learner.context(), *table));
  }
  const DenseValues values = read_dense(learner);
  const auto dense =
      write_safetensors(writer.path() + "/" + kDenseFile, dense_tensors(learner, values));
  writer.add_file(kDenseFile, {dense.bytes, dense.checksum});
  for (const Asset& asset : pipeline.assets) writer.write_file(asset.name, asset.content);
  writer.write_file(kConfigFile, config_text(pipeline.config));
  return writer.commit(std::move(manifest));
}

void update_run(const std::string& checkpoint, Learner& learner, const RunState& state) {
  update_manifest(checkpoint,
                  [&](Manifest& manifest) { describe_evaluations(learner, state, manifest); });
}

DenseWeights evaluated_weights(const config::PipelineConfig& config) {
  const bool averages = config.train_config().dense_optimizer().has_ema();
  const config::EvalConfig& eval = config.eval_config();
  return (eval.has_use_dense_ema() ? eval.use_dense_ema() : averages) ? DenseWeights::kAverage
                                                                      : DenseWeights::kTrained;
}

int64_t load_model(const std::string& path, const Context& context, Model& model,
                   DenseWeights weights) {
  const Checkpoint checkpoint = open_checkpoint(path);
  compare(checkpoint, model);
  load_tables(checkpoint, context, LoadMode::kWeightsOnly, model);
  load_parameters(SafetensorsFile(checkpoint.file(kDenseFile)), context, weights, model.graph());
  return checkpoint.manifest.step;
}

RunState load_run(const std::string& path, Learner& learner) {
  const Checkpoint checkpoint = open_checkpoint(path);
  compare(checkpoint, learner.model());
  load_tables(checkpoint, learner.context(), LoadMode::kContinue, learner.model());
  const SafetensorsFile dense(checkpoint.file(kDenseFile));
  load_parameters(dense, learner.context(), DenseWeights::kTrained, learner.model().graph());
  const Manifest& manifest = checkpoint.manifest;
  learner.set_steps(manifest.step);
  load_training_state(dense, learner);
  learner.loss_scaler().restore(manifest.loss_scale);
  const auto schedule = [&](const std::string& name, Schedule& target) {
    const auto found = manifest.schedules.find(name);
    if (found != manifest.schedules.end()) target.restore(found->second);
  };
  schedule("sparse", learner.sparse_schedule());
  for (size_t i = 0; i < learner.dense_parts().size(); ++i)
    schedule(schedule_name(i), *learner.dense_parts()[i].schedule);
  return {.position = manifest.position,
          .early_stopping = manifest.early_stopping,
          .evaluation_due = manifest.evaluation_due,
          .only_best = manifest.only_best,
          .metrics = manifest.metrics,
          .deltas = manifest.deltas};
}

}  // namespace emblem
