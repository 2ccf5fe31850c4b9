// train/run/rank_positions.h - where the ranks of a training are in its data.
#pragma once

#include <vector>

#include "data/batch.h"
#include "train/run/world.h"

namespace emblem {

// Where a run is, as checkpoints store it.
struct StoredPositions {
  DataPosition all;  // position of the only shard; of several: their epoch, or join_streams
  std::vector<DataPosition> shards;  // by shard; empty of a single one
};

// Positions of all shards, on rank 0. `own`: those of this rank's shards; `epoch`: that of all.
// Collective.
StoredPositions gather_positions(const World& world, const std::vector<DataPosition>& own,
                                 int64_t epoch);

// For a stream, whose partitions the shards have divided: `position` becomes that of all of
// them, as one process that reads all partitions would have it. Positions in files have no such
// sum; `position` is then left as it is.
void join_streams(const std::vector<DataPosition>& shards, DataPosition& position);

// Where each of `shards` shards continues in a stream: with all partitions, of which it takes its
// own. `stored` are the positions of the shards that have written the checkpoint, `joined` their
// sum.
std::vector<DataPosition> divide_stream(const DataPosition& joined,
                                        const std::vector<DataPosition>& stored, int64_t shards);

}  // namespace emblem
