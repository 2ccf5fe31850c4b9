#include "plan/sample.h"

#include <algorithm>

#include "data/loader/loader.h"
#include "emblem/error.h"
#include "kafka/address.h"

namespace emblem {
namespace {

LoaderOptions options_of(const config::PipelineConfig& config, int64_t rows, int64_t batches) {
  EMBLEM_REQUIRE(!config.train_input_path().empty(),
                 "no data to read; set train_input_path in the configuration or give "
                 "--train-input");
  if (is_kafka_address(config.train_input_path()))
    throw Error(ErrorCode::kUnsupported,
                "a stream as train_input_path cannot be planned for; give "
                "files of the same form with --train-input");
  LoaderOptions options = training_loader_options(config);
  options.batch_size = rows;
  options.epochs = 1;
  options.max_batches = batches;
  options.shuffle = false;
  return options;
}

}  // namespace

std::vector<Batch> read_batches(const config::PipelineConfig& config, const FeatureLayout& layout,
                                int64_t rows, int64_t count, int64_t stream, int64_t streams) {
  LoaderOptions options = options_of(config, rows, count);
  options.stream = stream;
  options.streams = streams;
  std::vector<Batch> batches;
  {
    Loader loader(config.data_config(), layout, options);
    for (Batch batch; std::ssize(batches) < count && loader.next(batch); batch = Batch())
      batches.push_back(std::move(batch));
  }
  // A stream without rows of its own measures with those of all.
  if (batches.empty() && streams > 1) return read_batches(config, layout, rows, count, 0, 1);
  return batches;
}

Workload sample_workload(const config::PipelineConfig& config, const FeatureLayout& layout,
                         int64_t rows, int64_t shards, int64_t batches, double alpha) {
  Workload workload = workload_of(config, layout, rows, shards);
  if (batches == 0) {
    assume_power_law(workload, alpha);
    return workload;
  }
  Loader loader(config.data_config(), layout, options_of(config, rows, batches));
  WorkloadSampler sampler(workload);
  for (Batch batch; loader.next(batch);) sampler.add(workload, batch);
  sampler.finish(workload, static_cast<double>(loader.expected_rows()));
  return workload;
}

BatchShape batch_shape_of(const config::PipelineConfig& config, int ranks) {
  const int64_t configured = config.train_config().logical_shards();
  const int64_t shards = configured > 0 ? configured : ranks;
  EMBLEM_REQUIRE(shards >= ranks, "train_config.logical_shards is ", shards, ", but there are ",
                 ranks, " ranks; use at most ", shards, " ranks");
  const int64_t all = config.train_config().global_batch_size();
  EMBLEM_REQUIRE(all % shards == 0, "train_config.global_batch_size is ", all,
                 ", which is not a multiple of ", shards, " shards; choose ",
                 (all + shards - 1) / shards * shards);
  return {all > 0 ? all / shards : training_loader_options(config).batch_size,
          (shards + ranks - 1) / ranks};
}

}  // namespace emblem
