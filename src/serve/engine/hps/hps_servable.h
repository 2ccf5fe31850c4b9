// serve/engine/hps/hps_servable.h - tables as HPS's Triton backend serves them: keys in, rows out.
//
// Inputs KEYS INT64 (the keys of all tables, table by table) and NUMKEYS INT32 (how many of each);
// output OUTPUT0 FP32: the rows, one after the other, in one dimension. The tables are those that
// ps.json lists for the model. Responses have HPS's parameters NumSample and DeviceID.
#pragma once

#include <memory>
#include <string>

#include "ps/parameter_server.h"
#include "serve/engine/servable.h"

namespace emblem {

// `where` names the configuration in messages. `tables` must outlive the servable.
std::unique_ptr<Servable> open_hps(const std::string& name, int64_t version,
                                   const inference::ModelConfig& config, const std::string& where,
                                   ParameterServer& tables);

}  // namespace emblem
