// ps/remote/remote_model.h - the tables of one version of a model, on table servers.
#pragma once

#include <memory>
#include <span>

#include "ps/remote/table_servers.h"
#include "ps/tables/served_model.h"
#include "ps/tables/table_source.h"

namespace emblem {

// Reads rows from `servers`, which must outlive it; all tables of a lookup in one request to each.
// The servers keep the version for as long as the model lives. Of the sources, name, dim, what
// missing keys read as, and the kind of the table (filter.is_hashed) are used: no file is read.
// Throws kUnavailable when parts of it are on no server that answers.
std::shared_ptr<ServedModel> make_remote_model(TableServers& servers, const ModelId& model,
                                               std::span<const TableSource> tables);

}  // namespace emblem
