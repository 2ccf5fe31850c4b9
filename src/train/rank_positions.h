// train/rank_positions.h - where the ranks of a training are in its data.
#pragma once

#include <vector>

#include "data/batch.h"
#include "train/world.h"

namespace emblem {

// The positions of all shards, by shard, on rank 0; nothing on the others. Collective.
std::vector<DataPosition> gather_positions(const World& world,
                                           const std::vector<DataPosition>& own);

// Of a stream, whose partitions the shards have divided: `position` becomes that of all of them,
// as one process that reads all partitions would have it. Positions in files have no such sum;
// `position` is then left as it is.
void join_streams(const std::vector<DataPosition>& shards, DataPosition& position);

// Where each of `shards` shards continues in a stream: with all partitions, of which it takes its
// own. `stored` are the positions of the shards that have written the checkpoint, `joined` their
// sum.
std::vector<DataPosition> divide_stream(const DataPosition& joined,
                                        const std::vector<DataPosition>& stored, int64_t shards);

}  // namespace emblem
