#include "serve/engine/pipeline_servable.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "checkpoint/checkpoint.h"
#include "checkpoint/input_ranges.h"
#include "checkpoint/safetensors.h"
#include "config/load/load.h"
#include "config/load/prediction_layout.h"
#include "core/files/file.h"
#include "core/text/joined.h"
#include "data/feature/column_types.h"
#include "model/check/check.h"
#include "ps/remote/remote_model.h"
#include "ps/tables/served_lookup.h"
#include "serve/engine/finite_model.h"
#include "serve/engine/hps/gpu_model.h"
#include "serve/engine/hps/served_tables.h"
#include "serve/engine/hps/table_sources.h"
#include "serve/engine/pipeline_engine.h"

namespace emblem {
namespace {

class LoadedPipeline final : public PipelineServable {
 public:
  explicit LoadedPipeline(const std::string& folder)
      : folder_(folder),
        config_(read_config(folder)),
        layout_(prediction_layout(layout_of(config_), config_.model_config())),
        outputs_(heads_of(config_, layout_)),
        columns_(config_.data_config(), layout_),
        transform_(config_.data_config(), layout_, LabelCheck::kIgnore, columns_.requests(),
                   columns_.columns()),
        changes_(folder),
        limit_(config_.model_config(), layout_) {}

  using OpenTables = std::function<std::unique_ptr<ServedTables>(
      const Checkpoint& checkpoint, const std::vector<TableSource>& tables)>;

  // Opens tables and reads dense parameters.
  void load(const ModelOptions& options, CheckpointFiles files, const OpenTables& open_tables) {
    options_ = options;
    warn_of_unknown_types(folder_, config_.data_config(), layout_);
    // What a model is served in does not follow from what it was trained in, but it may have been
    // exported for int8.
    const bool is_int8 = config_.train_config().mixed_precision() == "INT8" &&
                         !options.gpu.precision_is_given && !options.gpu.used;
    const DType precision = is_int8 ? DType::kInt8 : options.gpu.precision;
    config_.mutable_train_config()->set_mixed_precision(mixed_precision_of(precision));
    const Checkpoint checkpoint = open_checkpoint(folder_, Verify::kContents, files);
    require_finite_parameters(checkpoint);
    tables_ = open_tables(checkpoint, table_sources(config_, layout_, checkpoint));
    dense_ = std::make_unique<SafetensorsFile>(checkpoint.file("dense.safetensors"));
    weights_bytes_ =
        static_cast<int64_t>(std::filesystem::file_size(checkpoint.file("dense.safetensors")));
    if (options_.gpu.used) {
      dispatch(
          Device::kCuda, [] {},
          [&] {
            gpu_ = std::make_shared<cuda::GpuModel>(
                config_, layout_, tables_->model(), options_.gpu,
                [this](const LookupTables& wanted) { return lookup_over(wanted); });
          });
    }
    make_engine();  // finds out whether the parameters fit
  }

  std::vector<TensorMetadata> inputs() const override {
    std::vector<TensorMetadata> inputs;
    for (const auto& input : columns_.inputs()) {
      TensorMetadata& made =
          inputs.emplace_back(TensorMetadata{input.name, input.type, {-1, input.width}});
      const bool is_weighted = columns_.requests()[static_cast<size_t>(input.columns[0])].weighted;
      if (!input.is_own) made.parameters.emplace_back("columns", columns_.column_names(input));
      if (input.is_sequence || is_weighted)
        made.parameters.emplace_back("values", input.is_sequence ? "sequence" : "weighted");
    }
    return inputs;
  }
  std::vector<TensorMetadata> outputs() const override {
    std::vector<TensorMetadata> outputs;
    for (const size_t position : outputs_.defaults) {
      const OutputSpec& output = outputs_.all[position];
      outputs.push_back({output.name, DataType::kFp32, {-1, output.cols}});
    }
    return outputs;
  }
  size_t named_outputs() const override { return outputs_.all.size(); }
  std::vector<std::pair<std::string, std::string>> parameters() const override {
    std::vector<std::pair<std::string, std::string>> parameters;
    for (const auto& input : columns_.inputs()) {
      if (input.columns.size() > 1 && !input.is_own)
        parameters.emplace_back(input.name, columns_.column_names(input));
    }
    return parameters;
  }

  void set_problem(std::function<std::string()> problem) { problem_ = std::move(problem); }
  std::string problem() const override {
    const std::string problem = problem_ ? problem_() : "";
    return problem.empty() && tables_ != nullptr ? tables_->problem() : problem;
  }
  std::string metrics(const std::string& labels) const override { return tables_->metrics(labels); }
  bool may_block() const override { return tables_->may_block(); }

  RequestSize check(const InferRequest& request) const override {
    for (const RequestedOutput& output : request.outputs) {
      const auto again =
          std::count_if(request.outputs.begin(), request.outputs.end(),
                        [&](const auto& other) { return other.name == output.name; });
      EMBLEM_REQUIRE(again == 1, "output '", output.name, "' is requested twice");
      EMBLEM_REQUIRE(outputs_.find(output.name) >= 0, "unexpected inference output '", output.name,
                     "' for model '", request.model, "'; it has ", output_names());
    }
    const int64_t rows = columns_.check(request);
    int64_t cols = 0;
    outputs_.for_each_of(request, [&](size_t i) { cols += outputs_.all[i].cols; });
    return {rows, static_cast<uint64_t>(rows * cols) * sizeof(float)};
  }

  const config::PipelineConfig& config() const override { return config_; }
  const FeatureLayout& layout() const override { return layout_; }
  std::unique_ptr<Predictor> make_predictor() const override {
    const int64_t piece_rows = HostPredictor::piece_rows(options_.threads);
    auto model = std::make_unique<Model>(
        Context{}, config_, layout_, piece_rows,
        [&](const LookupTables& wanted) { return lookup_over(wanted); }, ModelUse::kTraining,
        nullptr, weights_bytes_);
    Graph& graph = model->graph();
    const auto read = [&](const std::string& name, View<float> all, const Parameter& part) {
      dense_->read<float>(name,
                          {all.data + part.begin, static_cast<size_t>(part.rows * part.cols)});
    };
    for (const Parameter& parameter : graph.parameter_list())
      read(parameter.name, graph.parameters(), parameter);
    for (const Parameter& statistic : graph.statistic_list())
      read("statistics." + statistic.name, graph.statistics(), statistic);
    if (config_.train_config().mixed_precision() == "INT8")
      read_input_ranges(*dense_, folder_ + "/dense.safetensors", graph);
    if (!options_.gpu.used) return std::make_unique<HostPredictor>(std::move(model), piece_rows);
    const auto values = [](View<float> view) {
      return std::vector<float>(view.data, view.data + view.size());
    };
    return dispatch(
        Device::kCuda, [] { return std::unique_ptr<Predictor>(); },
        [&] {
          return gpu_->make_predictor(values(graph.parameters()), values(graph.statistics()));
        });
  }

  std::unique_ptr<Engine> make_engine() const override {
    PipelineEngine::MakePredictor renew;
    if (!options_.gpu.used) renew = [this] { return make_predictor(); };
    return std::make_unique<PipelineEngine>(columns_, transform_, changes_, limit_, outputs_,
                                            make_predictor(), options_.threads, std::move(renew));
  }

 private:
  std::string output_names() const { return joined(outputs_.all, ", ", &OutputSpec::name); }

  static config::PipelineConfig read_config(const std::string& folder) {
    config::PipelineConfig config = load_stored_pipeline(folder);
    check_pipeline(config);
    return config;
  }

  std::unique_ptr<Lookup> lookup_over(const LookupTables& wanted) const {
    std::vector<ServedFeature> features;
    for (const TableUse& use : wanted.uses) {
      const std::string& name = wanted.tables[static_cast<size_t>(use.table)].name;
      features.push_back({&tables_->model().table(name), use.pooling});
    }
    return make_served_lookup(features);
  }

  const std::string folder_;
  config::PipelineConfig config_;
  const FeatureLayout layout_;
  const ServedOutputs outputs_;
  const RequestColumns columns_;
  const FeatureTransform transform_;
  const RequestChanges changes_;
  const AttentionLimit limit_;
  ModelOptions options_;
  std::unique_ptr<ServedTables> tables_;
  std::shared_ptr<cuda::GpuModel> gpu_;  // where it runs on a GPU; over tables_
  std::unique_ptr<SafetensorsFile> dense_;
  int64_t weights_bytes_ = 0;             // of its file: a weight is a byte at least
  std::function<std::string()> problem_;  // problem of its tables; empty: there can be none
};

}  // namespace

std::unique_ptr<PipelineServable> open_pipeline(const std::string& name, int64_t version,
                                                const std::string& folder,
                                                const ModelOptions& options,
                                                ParameterServer& tables) {
  auto servable = std::make_unique<LoadedPipeline>(folder);
  servable->load(options, CheckpointFiles::kAll,
                 [&](const Checkpoint& checkpoint, const std::vector<TableSource>& sources) {
                   return std::make_unique<ServedTables>(tables, name, version, sources,
                                                         checkpoint.manifest.deltas);
                 });
  return servable;
}

std::unique_ptr<Servable> open_pipeline(const std::string& name, int64_t version,
                                        const std::string& folder, const ModelOptions& options,
                                        TableServers& servers) {
  EMBLEM_REQUIRE(!options.gpu.used, "model ", name,
                 " is to run on a GPU, which models with tables on table servers cannot");
  // Before files are read: this is tried again and again while servers load the version.
  const ModelId id = model_id_of(name, version, folder);
  if (!servers.problem(id).empty()) servers.refresh();
  const std::string problem = servers.problem(id);
  if (!problem.empty()) throw Error(ErrorCode::kUnavailable, problem);
  auto servable = std::make_unique<LoadedPipeline>(folder);
  servable->load(options, CheckpointFiles::kWithoutTables,
                 [&](const Checkpoint&, const std::vector<TableSource>& sources) {
                   return std::make_unique<ServedTables>(make_remote_model(servers, id, sources));
                 });
  check_unchanged(id, folder);
  servable->set_problem([&servers, id] { return servers.problem(id); });
  return servable;
}

std::unique_ptr<Servable> describe_pipeline(const std::string& folder) {
  return std::make_unique<LoadedPipeline>(folder);
}

}  // namespace emblem
