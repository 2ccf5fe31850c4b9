// shard/cuda/lay_requests.h - requests of all ranks, as they came, become the keys of a lookup over
// the tables here, and back: the kernels. All asynchronous.
#pragma once

#include <cstdint>

#include "core/device/context.h"
#include "embedding/parts.h"
#include "shard/message_layout.h"

namespace emblem::cuda {

// A table.
struct HeldRef {
  int32_t dim;
  bool is_static;  // keys become rows of the parts here
  bool sends_counts;
  bool can_miss;
  PartRange held;
};

// An item that is not empty.
struct RequestedItem {
  ItemPlace place;
  int64_t rows;    // where they begin, in elements, and ...
  int64_t flags;   // ... their flags, both from the begin of the rows here
  uint32_t first;  // requests before it, in the order of messages
  uint32_t local;  // its first among all requests by table
  int32_t table;
  bool is_answered;
};

struct LayRequests {
  const RequestedItem* items;
  int32_t item_count;
  uint32_t total;  // requests
  const HeldRef* tables;
};

// Keys, the places of their rows, and occurrences where `counts` came, by table.
void lay_by_table(const Context& context, const LayRequests& requests, const int64_t* keys,
                  const int32_t* counts, int64_t* local_keys, int64_t* places,
                  int32_t* local_counts);

// Which keys have no row, from the order of tables to messages.
void lay_flags(const Context& context, const LayRequests& requests, const uint8_t* absent,
               uint8_t* flags);

}  // namespace emblem::cuda
