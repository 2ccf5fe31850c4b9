// shard/cuda/requester_pooled.cuh - what a RequesterPooled has on the GPU.
#pragma once

#include "core/device/stream.h"
#include "core/memory/pinned.h"
#include "embedding/cuda/lookup/device_batch.cuh"
#include "embedding/cuda/lookup/device_lookup.h"
#include "embedding/cuda/lookup/lookup_scratch.cuh"
#include "embedding/cuda/table/device_table.h"
#include "shard/cuda/device_requests.h"
#include "shard/cuda/lay_requests.h"
#include "shard/cuda/requester_pooled.h"

namespace emblem::cuda {

// The distinct keys of a batch, by slot.
struct RequesterPooled::Routed {
  std::vector<DeviceRequests> requests;
  Buffer<uint32_t> counts;  // [slots, ranks, tables]
  std::unique_ptr<PinnedMemory> host_counts;
  Event done;
  std::vector<FeatureKeys> features;
  bool is_ahead = false;  // whether the keys are those of the next training pass
};

struct RequesterPooled::Memory {
  BatchLayout layout;
  std::vector<RowShape> shapes;
  Buffer<uint16_t> rank_of_part;
  Buffer<OwnersRef> owners;
  Buffer<TableClocks> clocks;
  std::vector<DeviceTableRef> arriving;  // rows as they come, as tables
  Buffer<DeviceTableRef> arriving_there;
  Buffer<FeatureCounts> feature_counts;
  Buffer<uint8_t> sends_counts, can_miss;
  Buffer<HeldRef> held;
  RequesterRef requester;
  Routed routed[2];      // keys of the current batch and of the next
  Stream routing;        // stream for keys of the next batch
  Event routing_begins;  // once the main stream is here
  Event laid;            // the requests of the next

  Buffer<ItemPlace> asked_items;
  Buffer<RequestedItem> requested_items;
  LayRequests lay{};
  Buffer<char> asked_keys, requested_keys;
  Buffer<char> rows;  // asked, then requested
  Buffer<int64_t> local_keys;
  Buffer<int64_t> places;
  Buffer<int32_t> local_counts;
  Buffer<uint8_t> absent;
};

}  // namespace emblem::cuda
