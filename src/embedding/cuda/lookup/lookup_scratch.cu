#include "embedding/cuda/lookup/lookup_scratch.cuh"

#include <algorithm>

#include "embedding/cuda/update/group_rows.h"
#include "embedding/cuda/update/update_rows.h"

namespace emblem::cuda {
namespace {

// Rows of a cache that are written back in one round.
constexpr int64_t kMaxWriteBackRows = 1 << 18;
constexpr int64_t kMaxStagedRows = 1 << 19;  // rows of an evaluation

// Entries of a hash map for `positions` keys that is at most half full.
int64_t map_entries(int64_t positions) {
  int64_t entries = 1024;
  while (entries < positions * 2) entries *= 2;
  return entries;
}

}  // namespace

TrainScratch::TrainScratch(const Context& context, int64_t positions_, int64_t partial_stride,
                           Sums sums)
    : positions(positions_),
      rows(Device::kCuda, positions_),
      bag_of(Device::kCuda, positions_),
      missing(Device::kCuda, positions_),
      counts(zeros<uint32_t>(context, positions_)),
      unique_ranks(Device::kCuda, positions_),
      coefficients(Device::kCuda, positions_),
      sorted_coefficients(Device::kCuda, positions_),
      uniques(Device::kCuda, positions_),
      segments(Device::kCuda, positions_),
      occurrences(Device::kCuda, positions_),
      map(zeros<unsigned long long>(context, map_entries(positions_))),
      leaders(Device::kCuda, positions_),
      key_occurrences(Device::kCuda, positions_),
      tickets(Device::kCuda, positions_),
      wait_tickets(Device::kCuda, positions_),
      before(Device::kCuda, positions_) {
  // Smaller batches have smaller tiles, and so perhaps more of them.
  int64_t tiles = 0;
  for (const int64_t most : {positions, int64_t{1} << 17, int64_t{1} << 18, int64_t{1} << 20}) {
    const int64_t count = std::min(most, positions);
    tiles = std::max(tiles, count / update_tile(static_cast<uint32_t>(count)) + 1);
  }
  arrivals = zeros<uint32_t>(context, tiles);  // classes use it one after the other
  partials = zeros<float>(context, tiles * partial_stride);
  if (sums != Sums::kDeterministic) return;
  sorting = Buffer<char>(Device::kCuda, static_cast<int64_t>(sorting_bytes(positions)));
  squares = Buffer<float>(Device::kCuda, positions);
}

void TrainScratch::add_to(BatchRef& batch) {
  batch.rows = rows.data();
  batch.unique_ranks = unique_ranks.data();
  batch.bag_of = bag_of.data();
  batch.coefficients = coefficients.data();
  batch.missing = missing.data();
  batch.uniques = uniques.data();
  batch.counts = counts.data();
  batch.segments = segments.data();
  batch.occurrences = occurrences.data();
  const bool weighted =
      std::any_of(batch.feature, batch.feature + batch.features, [](const FeatureRef& feature) {
        return feature.weights != nullptr ||
               (feature.offsets != nullptr && feature.pooling == Pooling::kMean);
      });
  if (weighted) batch.sorted_coefficients = sorted_coefficients.data();
}

InsertScratch TrainScratch::insert(SelectScratch* select) {
  return {map.data(),          static_cast<uint32_t>(map.size() - 1),
          leaders.data(),      key_occurrences.data(),
          tickets.data(),      before.data(),
          wait_tickets.data(), select};
}

ReadScratch::ReadScratch(const Context& context, int64_t positions_, int64_t weight_bytes,
                         const TransferSettings& transfer)
    : positions(positions_), rows(Device::kCuda, positions_), staged_stride(weight_bytes) {
  if (weight_bytes == 0) return;
  map = zeros<unsigned long long>(context, map_entries(positions));
  index = Buffer<uint32_t>(Device::kCuda, map.size());
  entries = Buffer<uint32_t>(Device::kCuda, positions);
  sorted = Buffer<uint32_t>(Device::kCuda, positions);
  occurrences = Buffer<uint2>(Device::kCuda, positions);
  staged = Buffer<char>(Device::kCuda, std::min(positions, kMaxStagedRows), weight_bytes);
  counters = zeros<UncachedCounters>(context, 1);
  staging = StagingBuffer::make(context, std::min(positions, kMaxWriteBackRows), weight_bytes,
                                StagingBuffer::Direction::kToDevice, transfer);
}

UncachedRows ReadScratch::uncached() {
  UncachedRows uncached;
  if (staged_stride == 0) return uncached;
  uncached.map = map.data();
  uncached.map_mask = static_cast<uint32_t>(map.size() - 1);
  uncached.entries = entries.data();
  uncached.sorted = sorted.data();
  uncached.occurrences = occurrences.data();
  uncached.index = index.data();
  uncached.staged = staged.data();
  uncached.staged_stride = staged_stride;
  uncached.staged_rows = static_cast<uint32_t>(staged.size() / staged_stride);
  uncached.counters = counters.data();
  return uncached;
}

StageMemory::StageMemory(const Context& context, int64_t positions_, int64_t row_bytes,
                         const TransferSettings& transfer)
    : positions(positions_),
      missing(Device::kCuda, 2 * positions_),
      victims(Device::kCuda, 2 * positions_),
      write_back_rows(Device::kCuda, std::min(positions_, kMaxWriteBackRows)),
      counters(zeros<uint32_t>(context, kStageCounters)),
      write_back(Device::kCuda, write_back_rows.size(), row_bytes),
      staging(StagingBuffer::make(context, write_back_rows.size(), row_bytes,
                                  StagingBuffer::Direction::kBoth, transfer)) {}

StageScratch StageMemory::ref() {
  return {missing.data(),
          missing.data() + positions,
          victims.data(),
          victims.data() + positions,
          write_back.data(),
          write_back_rows.data(),
          static_cast<uint32_t>(write_back_rows.size()),
          counters.data(),
          ref_of(staging)};
}

}  // namespace emblem::cuda
