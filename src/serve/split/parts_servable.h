// serve/split/parts_servable.h - a version of a model on a table server: rows for front ends, no
// inference.
#pragma once

#include <memory>
#include <string>

#include "ps/parameter_server.h"
#include "serve/engine/servable.h"
#include "serve/split/table_parts.h"

namespace emblem {

// Loads the rows of the version's tables that are in the parts of `parts`; both must outlive the
// result. The first version of a model that is loaded brings the one before it, where the folder
// next to it has one: front ends may still use that.
std::unique_ptr<Servable> open_parts(const std::string& name, int64_t version,
                                     const std::string& folder, ParameterServer& tables,
                                     TableParts& parts);

}  // namespace emblem
