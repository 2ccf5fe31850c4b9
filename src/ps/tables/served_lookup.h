// ps/tables/served_lookup.h - the Lookup of a model that is served: evaluation only, over tables in
// tiers.
#pragma once

#include <memory>
#include <span>

#include "embedding/lookup.h"
#include "ps/tables/served_table.h"

namespace emblem {

struct ServedFeature {
  ServedTable* table = nullptr;  // borrowed; outlives the lookup
  Pooling pooling = Pooling::kSum;
};

// A lookup on the CPU. Sums are those of a HostLookup over the same rows, bit for bit. Only
// Phase::kEval is possible. Keys that no tier has read as the table's default row; kUnavailable
// is thrown when a tier that is needed cannot answer.
//
// One thread at a time may use a lookup; any number of lookups may read the same tables at the same
// time, while these are updated. With tables in memory it allocates nothing once it has seen its
// largest batch.
std::unique_ptr<Lookup> make_served_lookup(std::span<const ServedFeature> features);

}  // namespace emblem
