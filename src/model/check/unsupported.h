// model/check/unsupported.h - settings of TorchEasyRec that Emblem reads, but cannot act on.
#pragma once

#include "config/proto/pipeline.pb.h"

namespace emblem {

// Throws Error with one line that names the setting and what to do instead.
void refuse_unsupported(const config::PipelineConfig& config);

}  // namespace emblem
