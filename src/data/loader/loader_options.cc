#include <algorithm>

#include "config/load/evaluation_input.h"
#include "data/loader/loader.h"

namespace emblem {
namespace {

LoaderOptions shared_options(const config::PipelineConfig& config) {
  const config::DataConfig& data = config.data_config();
  LoaderOptions options;
  options.batch_size = data.batch_size();
  options.workers = static_cast<int>(std::max(data.num_workers(), 1u));
  options.prefetch_batches = static_cast<int>(std::max(data.prefetch_batches(), 1u));
  options.seed = config.train_config().seed();
  options.max_bad_rows = static_cast<int64_t>(data.max_bad_rows());
  options.holdout_ratio = data.holdout_ratio();
  options.holdout_fields.assign(data.holdout_fields().begin(), data.holdout_fields().end());
  return options;
}

}  // namespace

LoaderOptions training_loader_options(const config::PipelineConfig& config) {
  const config::DataConfig& data = config.data_config();
  const config::TrainConfig& train = config.train_config();
  LoaderOptions options = shared_options(config);
  options.input = config.train_input_path();
  // A run that is limited by steps goes through the data as often as it needs.
  options.epochs = train.has_num_steps() ? 0 : std::max<int64_t>(train.num_epochs(), 1);
  options.shuffle = data.shuffle();
  options.shuffle_rows = static_cast<int64_t>(data.shuffle_buffer_size()) * data.batch_size();
  options.sample_ratio = data.sample_ratio();
  options.rows = has_holdout(config) ? RowPart::kTraining : RowPart::kAll;
  options.drop_remainder = data.drop_remainder();
  return options;
}

LoaderOptions evaluation_loader_options(const config::PipelineConfig& config) {
  const config::DataConfig& data = config.data_config();
  LoaderOptions options = shared_options(config);
  options.input = evaluation_input(config);
  options.rows = has_holdout(config) ? RowPart::kHoldout : RowPart::kAll;
  if (data.has_eval_batch_size()) options.batch_size = data.eval_batch_size();
  return options;
}

}  // namespace emblem
