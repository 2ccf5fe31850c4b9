// bench/train/until.h - times training until a metric reaches a value, as in SOK's DLRM
// benchmark.
#pragma once

#include <string>
#include <vector>

#include "bench/result/result.h"
#include "config/proto/pipeline.pb.h"
#include "core/device/context.h"
#include "train/run/early_stopping.h"

namespace emblem {

class Trace;

// Trains `config`, which has passed check_pipeline, until an evaluation reaches `goal` or the data
// end. Writes no checkpoint. `trace` may be null.
BenchResult bench_until(const Context& context, const std::string& name,
                        config::PipelineConfig config, const StopAt& goal, Trace* trace);

// Batch, exit criterion, evaluation interval, minutes, average iteration and throughput of each
// result of bench_until, one per line.
std::string until_table(const std::vector<BenchResult>& results);

}  // namespace emblem
