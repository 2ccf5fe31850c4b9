// train/state/whole_rows.h - the rows of a table whose columns are on several ranks.
#pragma once

#include <functional>
#include <optional>

#include "comm/communicator.h"
#include "embedding/table.h"
#include "shard/table_shards.h"

namespace emblem {

// Calls `take` on rank `to`, on others never, with the rows of a table by columns (TableShards),
// put together in batches of at most `batch_rows`; `since` as in Table::export_rows. All ranks call
// it together; `table` is the slice of this one.
void export_whole_rows(const Context& context, Communicator& ranks, const TableShards& shards,
                       const Table& table, int64_t batch_rows, int to,
                       const std::function<void(const RowBatch&)>& take,
                       std::optional<int64_t> since = {});

}  // namespace emblem
