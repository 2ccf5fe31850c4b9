#include "emblem/model.h"

#include <mutex>

#include "api/compute.h"
#include "api/data.h"
#include "api/evaluation.h"
#include "api/pipeline.h"
#include "checkpoint/checkpoint.h"
#include "config/load/load.h"
#include "model/model.h"
#include "serve/repository/export.h"
#include "train/state/onnx_export.h"
#include "train/state/restored.h"

namespace emblem::api {
namespace {

std::vector<std::string> overrides_of(const ModelOptions& options) {
  config::PipelineConfig checked;
  set_precision(options.precision, options.device, &checked);
  if (options.precision.empty()) return {};
  return {cat("train_config.mixed_precision=", checked.train_config().mixed_precision())};
}

}  // namespace

struct Model::State {
  State(const std::string& checkpoint, const ModelOptions& given)
      : options(given),
        workers(open_workers(given.device, given.threads)),
        fetched(open_storage(config::DataConfig())),
        model(workers.context, find_checkpoint(checkpoint, fetched), "", overrides_of(given)) {}

  PassWatch watch() const {
    return {CancelToken(options.is_cancelled), [this](const PassProgress& progress) {
              if (options.on_progress) options.on_progress(progress.rows, progress.expected_rows);
            }};
  }

  const ModelOptions options;
  const Workers workers;
  const Storage fetched;  // holds a checkpoint that was fetched
  std::mutex mutex;       // held by a call
  RestoredModel model;
};

Model::Model(const std::string& checkpoint, const ModelOptions& options)
    : state_(std::make_unique<State>(checkpoint, options)) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

Evaluation Model::evaluate(const Data& data, const OwnMetrics& own_metrics) {
  const std::lock_guard lock(state_->mutex);
  const GivenRows rows(data, "input", state_->model.storage());
  const emblem::OwnMetrics own = to_internal(own_metrics);
  PassWatch watch = state_->watch();
  watch.own_metrics = &own;
  return to_public(state_->model.evaluate(rows.input(), {}, watch));
}

Predictions Model::predict(const Data& data, const std::vector<std::string>& outputs) {
  EMBLEM_REQUIRE(!data.is_empty(), "no data is given; expected rows or files");
  const std::lock_guard lock(state_->mutex);
  const GivenRows rows(data, "input", state_->model.storage());
  emblem::Predictions made = state_->model.predict(rows.input(), outputs, state_->watch());
  const auto columns = static_cast<int64_t>(made.columns.size());
  const auto count = static_cast<int64_t>(made.values.size()) / columns;
  return {std::move(made.columns), count, std::move(made.values)};
}

std::string Model::export_to(const std::string& folder) const {
  return export_model(checkpoint(), folder).folder;
}

void Model::export_onnx(const std::string& folder, const std::vector<std::string>& outputs) const {
  const Workers workers = open_workers("cpu", state_->options.threads);
  emblem::export_onnx(workers.context, checkpoint(), {folder, outputs});
}

Pipeline Model::pipeline() const {
  const config::PipelineConfig& config = state_->model.config();
  return Pipeline::State::make(to_text(config), config);
}

std::string Model::checkpoint() const { return state_->model.checkpoint(); }
int64_t Model::step() const { return state_->model.step(); }

}  // namespace emblem::api
