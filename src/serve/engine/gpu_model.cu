#include "serve/engine/gpu_model.h"

#include "core/gpu.h"
#include "core/stream.h"
#include "model/device_predictor.h"

namespace emblem::cuda {
namespace {

// A predictor and the stream that it works on.
class OwnStreamPredictor final : public Predictor {
 public:
  void run(const Context& context, const ModelBatch& batch,
           std::span<float> probabilities) override {
    predictor->run(context, batch, probabilities);
  }
  Model& model() override { return predictor->model(); }

  Stream stream;
  std::unique_ptr<DevicePredictor> predictor;
};

const char* config_name(DType type) {
  return type == DType::kF16 ? "FP16" : type == DType::kBf16 ? "BF16" : "FP32";
}

}  // namespace

GpuModel::GpuModel(const config::PipelineConfig& config, const FeatureLayout& layout,
                   const ServedModel& tables, const GpuOptions& options)
    : config_(config), layout_(layout), options_(options) {
  require_usable_gpu();
  config_.mutable_train_config()->set_mixed_precision(config_name(options.precision));
  // The model's shape says which lookups it has.
  const Model shape(Context{}, config_, layout_, 1, [&](const TablePlan& plan) {
    DeviceTierSettings settings{
        .dtype = options.precision,
        .size = {.share = options.cache_share, .bytes = options.cache_bytes},
        .policy = options.cache_policy,
        .hit_rate_threshold = options.hit_rate_threshold};
    for (const TableSettings& table : plan.tables)
      settings.tables.push_back(tables.tables().at(table.name));
    tiers_.push_back(std::make_unique<DeviceTier>(std::move(settings)));
    return std::unique_ptr<Lookup>();
  });
}

std::unique_ptr<Predictor> GpuModel::make_predictor(const std::vector<float>& parameters,
                                                    const std::vector<float>& statistics) const {
  auto made = std::make_unique<OwnStreamPredictor>();
  const Context context{.device = Device::kCuda, .stream = made->stream.get()};
  std::vector<PredictorLookup> lookups;
  auto model = std::make_unique<Model>(
      context, config_, layout_, options_.max_rows, [&](const TablePlan& plan) {
        DeviceTier& tier = *tiers_[lookups.size()];
        std::vector<int> features;
        for (const TableUse& use : plan.uses) features.push_back(static_cast<int>(use.table));
        lookups.push_back(
            {tier.make_rows(context, std::move(features), options_.max_rows), tier.make_missing()});
        return std::unique_ptr<Lookup>();
      });
  Graph& graph = model->graph();
  emblem::detail::copy(context, graph.parameters().data, parameters.data(),
                       parameters.size() * sizeof(float));
  emblem::detail::copy(context, graph.statistics().data, statistics.data(),
                       statistics.size() * sizeof(float));
  context.synchronize();
  made->predictor = std::make_unique<DevicePredictor>(context, std::move(model), std::move(lookups),
                                                      options_.max_rows);
  made->predictor->warm_up();
  return made;
}

}  // namespace emblem::cuda
