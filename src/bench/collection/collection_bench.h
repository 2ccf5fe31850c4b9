// bench/collection/collection_bench.h - lookups and updates of many tables over ranks: the protocol
// of dynamicemb's EmbeddingCollection benchmark.
//
// 26 tables of the Criteo data (178 M rows), rows over all ranks, dim 128, Adam; every sample has
// 10 uniform keys per table, each with an output row of its own. An iteration is forward, then
// backward with the update; there is no dense part.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/result/result.h"
#include "comm/communicator.h"
#include "core/device/context.h"
#include "embedding/settings.h"
#include "shard/sharded_lookup.h"

namespace emblem {

struct CollectionOptions {
  int64_t batch = 65536;  // samples of all ranks
  int64_t keys = 10;      // keys of a sample, for each table
  int64_t dim = 128;
  int64_t divide_tables = 1;  // tables with 1/N of the rows
  bool dynamic = false;
  bool dedup = true;  // send each key once a rank
  HostDedup host_dedup = HostDedup::kNone;
  int64_t distinct = 8;  // batches, used in turn
  int64_t warmup = 10;
  int64_t iterations = 100;
};

// Called by every rank; `device` exchanges memory of the context's device. Rank 0 gets the result,
// with the bytes that cross between hosts where there are several.
BenchResult bench_collection(const Context& context, Communicator& host, Communicator& device,
                             const CollectionOptions& options);

// The work of one of `ranks` GPUs, on one: what the other ranks ask of it is generated, rows and
// gradients stay where they are. Links are not measured: their time is computed from the bytes at
// `link_bytes_per_second` and reported apart.
BenchResult bench_collection_share(const Context& context, int ranks, double link_bytes_per_second,
                                   const CollectionOptions& options);

// The tables of the protocol.
std::vector<TableSettings> collection_tables(const CollectionOptions& options);
// The keys of a table in a batch of a rank.
std::vector<int64_t> collection_keys(const CollectionOptions& options, int ranks, int rank,
                                     int64_t batch, size_t table, int64_t rows);

}  // namespace emblem
