#include "train/state/run_state.h"

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "comm/bytes.h"
#include "config/load/load.h"
#include "core/math/finite.h"
#include "core/memory/host_copy.h"
#include "core/text/joined.h"
#include "embedding/files/table_files.h"
#include "emblem/api.h"
#include "emblem/error.h"
#include "train/run/rank_positions.h"
#include "train/state/dense_values.h"
#include "train/state/saved_tables.h"

namespace emblem {
namespace {

ManifestTable describe_table(const Table& table) {
  const TableSettings& settings = table.settings();
  return {.name = settings.name,
          .kind = table.is_static() ? "static" : "dynamic",
          .dim = settings.row_dim(),
          .dtype = name_of(settings.dtype),
          .optimizer = name_of(settings.rule)};
}

[[noreturn]] void refuse(const Checkpoint& checkpoint, const std::string& difference) {
  throw Error(
      ErrorCode::kInvalidArgument,
      cat(checkpoint.path, " belongs to another model: ", difference,
          "; use the configuration it was trained with (", checkpoint.file(kConfigFile), ")"));
}

// Compares, before anything is loaded, whether this is the same model.
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
    if (const int64_t dim = table->settings().row_dim(); found->dim != dim) {
      refuse(checkpoint,
             cat("its table ", found->name, " has dimension ", found->dim, ", not ", dim));
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
  manifest.epoch = state.epoch;
  manifest.model = learner.model().name();
  for (const Parameter& parameter : learner.model().graph().parameter_list()) {
    manifest.parameters.push_back({parameter.name, {parameter.rows, parameter.cols}});
  }
  manifest.loss_scale = learner.loss_scaler().state();
  manifest.deltas = state.deltas;
  manifest.input_files = state.input_files;
  manifest.sampler_files = state.sampler_files;
  manifest.seeds = {{"train", config.train_config().seed()}};
  describe_evaluations(learner, state, manifest);
  return manifest;
}

std::vector<DataPosition> own_part(const std::vector<DataPosition>& positions, const World& world) {
  return {positions.begin() + world.first_shard(), positions.begin() + world.last_shard()};
}

// The positions of this rank's shards. A checkpoint of another number of shards can be continued
// where all of them have reached the end of an epoch. Partitions of a stream are divided again.
std::vector<DataPosition> positions_of(const Checkpoint& checkpoint, const World& world) {
  const Manifest& manifest = checkpoint.manifest;
  const std::vector<DataPosition>& stored = manifest.positions;
  if (!manifest.position.stream.empty())
    return own_part(divide_stream(manifest.position, stored, world.shards), world);
  const auto wanted = static_cast<size_t>(world.shards);
  const auto found = std::max<size_t>(stored.size(), 1);
  const auto begins_epoch = [&](const DataPosition& position) {
    return position == DataPosition{.epoch = manifest.position.epoch};
  };
  if (found != wanted) {
    const bool at_border = stored.empty() ? begins_epoch(manifest.position)
                                          : std::all_of(stored.begin(), stored.end(), begins_epoch);
    EMBLEM_REQUIRE(at_border, checkpoint.path, " was written in the middle of an epoch whose data ",
                   found, " shards read, not ", wanted,
                   "; continue with --set "
                   "train_config.logical_shards=",
                   found, " and at most as many ranks");
    return std::vector<DataPosition>(static_cast<size_t>(world.own_shards()),
                                     {.epoch = manifest.position.epoch});
  }
  return stored.empty() ? std::vector{manifest.position} : own_part(stored, world);
}

// A checkpoint does not depend on the folder it is in.
std::string config_text(config::PipelineConfig config) {
  config.clear_model_dir();
  return to_stored_text(std::move(config));
}

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) { return joined(shape, " x "); }

std::string save_run(const std::string& model_dir, Learner& learner, const RunState& state,
                     const StoredPipeline& pipeline) {
  learner.model().check(learner.context());
  const World& world = learner.world();
  std::optional<CheckpointWriter> writer;
  std::string path;
  if (world.writes()) path = writer.emplace(model_dir, learner.steps()).path();
  broadcast_bytes(*world.ranks, path);
  const std::vector<SavedTable> saved = save_tables(learner, path);
  Manifest manifest = describe(learner, state, pipeline.config);
  StoredPositions positions = gather_positions(world, state.positions, state.epoch);
  manifest.position = std::move(positions.all);
  manifest.positions = std::move(positions.shards);
  if (world.writes()) {
    for (size_t t = 0; t < saved.size(); ++t) {
      ManifestTable& entry =
          manifest.tables.emplace_back(describe_table(*learner.model().tables()[t]));
      entry.rows = saved[t].rows;
      for (const auto& [name, facts] : saved[t].files) {
        entry.files.push_back(name);
        writer->add_file(name, facts);
      }
    }
    const DenseValues values = read_dense(learner);
    if (!are_finite(values.parameters) || !are_finite(values.statistics) ||
        !are_finite(values.average))
      throw Error(ErrorCode::kInternal,
                  cat("parameters of layers are NaN or infinite after step ", learner.steps(),
                      " and are not saved; training has diverged: lower the learning rate, and "
                      "continue from an earlier checkpoint"));
    const auto dense = write_safetensors(path + "/" + kDenseFile, dense_tensors(learner, values));
    writer->add_file(kDenseFile, {dense.bytes, dense.checksum});
    for (const Asset& asset : pipeline.assets) writer->write_file(asset.name, asset.content);
    writer->write_file(kConfigFile, config_text(pipeline.config));
    path = writer->commit(std::move(manifest));
  }
  broadcast_bytes(*world.ranks, path);
  return path;
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
  // One rank reads all files to compare checksums.
  const Checkpoint checkpoint =
      open_checkpoint(path, learner.world().writes() ? Verify::kContents : Verify::kSizes);
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
  return {.epoch = manifest.position.epoch,
          .positions = positions_of(checkpoint, learner.world()),
          .early_stopping = manifest.early_stopping,
          .evaluation_due = manifest.evaluation_due,
          .only_best = manifest.only_best,
          .metrics = manifest.metrics,
          .deltas = manifest.deltas,
          .input_files = manifest.input_files,
          .sampler_files = manifest.sampler_files};
}

}  // namespace emblem
