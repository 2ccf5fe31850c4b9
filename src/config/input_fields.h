// config/input_fields.h - data_config.input_fields_str.
#pragma once

#include "config/data.pb.h"

namespace emblem {

// Turns "name:TYPE;name:TYPE" into input_fields. Types are those of MaxCompute: INT, BIGINT, FLOAT,
// DOUBLE, STRING, ARRAY<...>, ARRAY<ARRAY<...>> and MAP<..., ...>. Throws Error.
void expand_input_fields_str(config::DataConfig* data);

}  // namespace emblem
