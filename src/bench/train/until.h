// bench/train/until.h - training until a metric is good enough, against the clock: the columns of
// SOK's DLRM benchmark.
#pragma once

#include <string>
#include <vector>

#include "bench/result/result.h"
#include "config/pipeline.pb.h"
#include "core/context.h"
#include "train/early_stopping.h"

namespace emblem {

class Trace;

// Trains as `config`, which has passed check_pipeline, says, until an evaluation reaches `goal` or
// the data end. Leaves no checkpoint behind. `trace`, where given, gets a timeline.
BenchResult bench_until(const Context& context, const std::string& name,
                        config::PipelineConfig config, const StopAt& goal, Trace* trace);

// Batch, exit criterion, evaluation interval, minutes, average iteration and throughput, one row a
// result of bench_until.
std::string until_table(const std::vector<BenchResult>& results);

}  // namespace emblem
