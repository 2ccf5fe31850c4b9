// api/compute.h - where a public object computes, by what its options say.
#pragma once

#include <string>

#include "config/proto/pipeline.pb.h"
#include "core/device/workers.h"

namespace emblem {

// Throws Error unless `device` is "cpu" or "cuda" and there is one.
Workers open_workers(const std::string& device, int threads);

// Sets the precision of layers; "": as it is. Throws Error where the device does not have it.
void set_precision(const std::string& precision, const std::string& device,
                   config::PipelineConfig* config);

}  // namespace emblem
