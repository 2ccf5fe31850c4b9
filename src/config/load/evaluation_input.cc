#include "config/load/evaluation_input.h"

namespace emblem {

bool has_holdout(const config::PipelineConfig& config) {
  return config.data_config().holdout_ratio() > 0;
}

std::string evaluation_input(const config::PipelineConfig& config) {
  return has_holdout(config) ? config.train_input_path() : config.eval_input_path();
}

}  // namespace emblem
