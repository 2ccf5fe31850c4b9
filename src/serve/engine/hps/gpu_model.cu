#include "serve/engine/hps/gpu_model.h"

#include "core/device/gpu.h"
#include "core/device/stream.h"
#include "model/lookup/staged_lookup.h"
#include "model/predict/device_predictor.h"
#include "model/predict/plain_predictor.h"

namespace emblem::cuda {
namespace {

// A predictor and the stream that it works on.
class OwnStreamPredictor final : public Predictor {
 public:
  using Predictor::run;
  void run(const Context& context, const ModelBatch& batch,
           std::span<const PredictedOutput> outputs) override {
    predictor->run(context, batch, outputs);
  }
  Model& model() override { return predictor->model(); }

  Stream stream;
  std::unique_ptr<Predictor> predictor;
};

void set_parameters(const Context& context, Graph& graph, const std::vector<float>& parameters,
                    const std::vector<float>& statistics) {
  emblem::detail::copy(context, graph.parameters().data, parameters.data(),
                       parameters.size() * sizeof(float));
  emblem::detail::copy(context, graph.statistics().data, statistics.data(),
                       statistics.size() * sizeof(float));
  context.synchronize();
}

}  // namespace

GpuModel::GpuModel(const config::PipelineConfig& config, const FeatureLayout& layout,
                   const ServedModel& tables, const GpuOptions& options, MakeLookup host_lookup)
    : config_(config), layout_(layout), options_(options), host_lookup_(std::move(host_lookup)) {
  require_usable_gpu();
  config_.mutable_train_config()->set_mixed_precision(mixed_precision_of(options.precision));
  // The model's shape says which lookups it has.
  std::vector<LookupTables> lookups;
  const Model shape(Context{}, config_, layout_, 1, [&](const LookupTables& wanted) {
    lookups.push_back(wanted);
    return std::unique_ptr<Lookup>();
  });
  is_plain_ = !DevicePredictor::unsupported_part(shape).empty();
  if (is_plain_) return;
  for (const LookupTables& wanted : lookups) {
    DeviceTierSettings settings{
        .dtype = options.precision,
        .size = {.share = options.cache_share, .bytes = options.cache_bytes},
        .policy = options.cache_policy,
        .hit_rate_threshold = options.hit_rate_threshold};
    for (const TableSettings& table : wanted.tables)
      settings.tables.push_back(tables.tables().at(table.name));
    tiers_.push_back(std::make_unique<DeviceTier>(std::move(settings)));
  }
}

std::unique_ptr<Predictor> GpuModel::make_predictor(const std::vector<float>& parameters,
                                                    const std::vector<float>& statistics) const {
  auto made = std::make_unique<OwnStreamPredictor>();
  const Context context{.device = Device::kCuda, .stream = made->stream.get()};
  std::vector<PredictorLookup> lookups;
  auto model = std::make_unique<Model>(
      context, config_, layout_, options_.max_rows, [&](const LookupTables& wanted) {
        if (is_plain_) return make_staged_lookup(host_lookup_(wanted));
        DeviceTier& tier = *tiers_[lookups.size()];
        std::vector<int> features;
        for (const TableUse& use : wanted.uses) features.push_back(static_cast<int>(use.table));
        lookups.push_back(
            {tier.make_rows(context, std::move(features), options_.max_rows), tier.make_missing()});
        return std::unique_ptr<Lookup>();
      });
  set_parameters(context, model->graph(), parameters, statistics);
  if (is_plain_) {
    made->predictor =
        std::make_unique<PlainPredictor>(context, std::move(model), options_.max_rows);
    return made;
  }
  auto captured = std::make_unique<DevicePredictor>(context, std::move(model), std::move(lookups),
                                                    options_.max_rows);
  captured->warm_up();
  made->predictor = std::move(captured);
  return made;
}

}  // namespace emblem::cuda
