// data/synth/presets.h - pipelines for data sets like public ones, for emblem synth --preset.
#pragma once

#include <string>

#include "config/proto/pipeline.pb.h"

namespace emblem {

// "taobao": display advertising with a history of clicks; clk, and buy where there was a click.
// "ccp": users with bags of weighted interests; clk and buy. "census": people; income and
// never_married. The columns are those of configs/NAME. Throws Error that lists the names for an
// unknown one.
config::PipelineConfig preset_pipeline(const std::string& name);

}  // namespace emblem
