// serve/engine/without_effect.h - settings of a config.pbtxt that Emblem accepts and does not use.
#pragma once

#include <string>
#include <vector>

#include "serve/engine/servable.h"
#include "serve/protocol/model_config.pb.h"

namespace emblem {

// Fields that are set and change nothing, as "optimization", "instance_group.profile" or
// "parameters["note"]", in the order of the schema and each once. `config` is one that
// model_options() takes: what would change answers is refused there. Parameters of models of
// backend hps are those of hps_options().
std::vector<std::string> without_effect(const inference::ModelConfig& config,
                                        const Servable& servable);

// One warning that names them, if there are any. `where` names the file.
void warn_of_settings_without_effect(const inference::ModelConfig& config, const Servable& servable,
                                     const std::string& where);

}  // namespace emblem
