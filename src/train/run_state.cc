#include "train/run_state.h"

#include <algorithm>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "config/load.h"
#include "config/print.h"
#include "core/file.h"
#include "core/host_copy.h"
#include "embedding/files/table_files.h"
#include "emblem/error.h"
#include "emblem/version.h"

namespace emblem {
namespace {

constexpr const char* kDenseFile = "dense.safetensors";
constexpr const char* kConfigFile = "pipeline.config";

std::string table_folder(const Table& table) { return "tables/" + table.settings().name; }

// All that is trained beside the tables, in host memory.
struct DenseValues {
  std::vector<float> parameters, statistics;
  std::vector<float> optimizer_state;  // [states, parameters], without what lies between these
};

template <class T>
std::span<T> part_of(std::span<T> all, const Parameter& part) {
  return all.subspan(part.begin, part.rows * part.cols);
}

// Calls body with the states of each parameter, one behind the other.
template <class Body>
void for_each_state(Learner& learner, std::span<float> state, Body&& body) {
  const size_t size = learner.model().graph().parameters().size();
  for (; !state.empty(); state = state.subspan(size)) {
    for (const Parameter& parameter : learner.model().graph().parameter_list())
      body(part_of(state.first(size), parameter));
  }
}

DenseValues read_dense(Learner& learner) {
  const Context& context = learner.context();
  Graph& graph = learner.model().graph();
  DenseValues values{
      to_host(context, graph.parameters()), to_host(context, graph.statistics()), {}};
  std::vector<float> state = to_host(context, learner.dense_optimizer().state());
  for_each_state(learner, state, [&](std::span<const float> part) {
    values.optimizer_state.insert(values.optimizer_state.end(), part.begin(), part.end());
  });
  return values;
}

void write_dense(Learner& learner, const DenseValues& values) {
  const Context& context = learner.context();
  Graph& graph = learner.model().graph();
  to_device(context, values.parameters, graph.parameters());
  to_device(context, values.statistics, graph.statistics());
  std::vector<float> state = to_host(context, learner.dense_optimizer().state());
  auto from = values.optimizer_state.begin();
  for_each_state(learner, state, [&](std::span<float> part) {
    std::copy_n(from, part.size(), part.begin());
    from += static_cast<std::ptrdiff_t>(part.size());
  });
  to_device(context, state, learner.dense_optimizer().state());
}

// Parameters and statistics by name, optimizer state as [states, parameters].
std::vector<TensorRef> dense_tensors(Learner& learner, const DenseValues& values) {
  Graph& graph = learner.model().graph();
  std::vector<TensorRef> tensors;
  for (const Parameter& parameter : graph.parameter_list()) {
    tensors.push_back(TensorRef::of<float>(parameter.name, {parameter.rows, parameter.cols},
                                           part_of<const float>(values.parameters, parameter)));
  }
  for (const Parameter& statistic : graph.statistic_list()) {
    tensors.push_back(TensorRef::of<float>("statistics." + statistic.name,
                                           {statistic.rows, statistic.cols},
                                           part_of<const float>(values.statistics, statistic)));
  }
  if (!values.optimizer_state.empty()) {
    const int64_t states = learner.dense_optimizer().state().rows;
    const auto size = static_cast<int64_t>(values.optimizer_state.size());
    tensors.push_back(TensorRef::of<float>("optimizer.state", {states, size / states},
                                           std::span<const float>(values.optimizer_state)));
  }
  return tensors;
}

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

Manifest describe(Learner& learner, const RunState& state, const config::PipelineConfig& config) {
  Manifest manifest;
  manifest.emblem_version = kVersion;
  manifest.epoch = state.position.epoch;
  manifest.model = learner.model().name();
  for (const Parameter& parameter : learner.model().graph().parameter_list()) {
    manifest.parameters.push_back({parameter.name, {parameter.rows, parameter.cols}});
  }
  manifest.position = state.position;
  manifest.schedules = {{"sparse", learner.sparse_schedule().state()},
                        {"dense", learner.dense_schedule().state()}};
  manifest.early_stopping = state.early_stopping;
  manifest.metrics = state.metrics;
  manifest.deltas = state.deltas;
  manifest.seeds = {{"train", config.train_config().seed()}};
  return manifest;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

[[noreturn]] void refuse(const Checkpoint& checkpoint, const std::string& difference) {
  throw Error(
      ErrorCode::kInvalidArgument,
      cat(checkpoint.path, " belongs to another model: ", difference,
          "; use the configuration it was trained with (", checkpoint.file(kConfigFile), ")"));
}

// Before anything is loaded: is this the same model?
void compare(const Checkpoint& checkpoint, Learner& learner) {
  const Manifest& manifest = checkpoint.manifest;
  Model& model = learner.model();
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

void load_dense(const Checkpoint& checkpoint, Learner& learner, Restore restore) {
  const SafetensorsFile file(checkpoint.file(kDenseFile));
  Graph& graph = learner.model().graph();
  DenseValues values = read_dense(learner);
  for (const Parameter& parameter : graph.parameter_list())
    file.read<float>(parameter.name, part_of<float>(values.parameters, parameter));
  for (const Parameter& statistic : graph.statistic_list())
    file.read<float>("statistics." + statistic.name, part_of<float>(values.statistics, statistic));
  if (restore == Restore::kContinue && !values.optimizer_state.empty())
    file.read<float>("optimizer.state", values.optimizer_state);
  write_dense(learner, values);
}

}  // namespace

std::string save_run(const std::string& model_dir, Learner& learner, const RunState& state,
                     const config::PipelineConfig& config, int64_t keep, int64_t best_step) {
  learner.model().check(learner.context());
  CheckpointWriter writer(model_dir, learner.steps());
  Manifest manifest = describe(learner, state, config);
  for (const Table* table : learner.model().tables()) {
    manifest.tables.push_back(save_table_into(writer, learner.context(), *table));
  }
  const DenseValues values = read_dense(learner);
  const auto dense =
      write_safetensors(writer.path() + "/" + kDenseFile, dense_tensors(learner, values));
  writer.add_file(kDenseFile, {dense.bytes, dense.checksum});
  writer.write_file(kConfigFile, to_stored_text(config));
  const std::string path = writer.commit(std::move(manifest));
  const int64_t spared[] = {learner.steps(), best_step};
  prune_checkpoints(model_dir, keep, spared);
  return path;
}

RunState load_run(const std::string& path, Learner& learner, Restore restore) {
  const Checkpoint checkpoint = open_checkpoint(path);
  compare(checkpoint, learner);
  const LoadMode mode =
      restore == Restore::kContinue ? LoadMode::kContinue : LoadMode::kWeightsOnly;
  for (Table* table : learner.model().tables()) {
    load_table(learner.context(), checkpoint.file(table_folder(*table)), mode, *table);
  }
  load_dense(checkpoint, learner, restore);
  const Manifest& manifest = checkpoint.manifest;
  learner.set_steps(manifest.step);
  const auto schedule = [&](const char* name, Schedule& target) {
    const auto found = manifest.schedules.find(name);
    if (found != manifest.schedules.end()) target.restore(found->second);
  };
  schedule("sparse", learner.sparse_schedule());
  schedule("dense", learner.dense_schedule());
  return {manifest.position, manifest.early_stopping, manifest.metrics, manifest.deltas};
}

}  // namespace emblem
