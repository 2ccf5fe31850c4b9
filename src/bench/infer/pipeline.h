// bench/infer/pipeline.h - the pipeline whose model is benchmarked.
#pragma once

#include "bench/infer/infer_bench.h"
#include "config/load.h"
#include "model/model.h"

namespace emblem {

inline config::PipelineConfig pipeline_of(const DlrmShape& shape, int64_t rows, BenchTables tables,
                                          DType compute) {
  auto config = parse_pipeline(dlrm_pipeline(shape, rows, tables), "preset " + shape.name);
  config.mutable_train_config()->set_mixed_precision(mixed_precision_of(compute));
  return config;
}

}  // namespace emblem
