// embedding/cuda/lookup/lookup_scratch.cuh - scratch memory of a lookup on the GPU. It grows with
// the largest batch; kinds of passes that may run concurrently have separate scratch.
#pragma once

#include <memory>

#include "core/device/cuda_check.h"
#include "core/memory/buffer.h"
#include "embedding/cuda/lookup/device_batch.cuh"
#include "embedding/cuda/lookup/device_lookup.h"
#include "embedding/cuda/lookup/stage_rows.h"
#include "embedding/cuda/table/insert_scratch.cuh"
#include "embedding/cuda/update/update_scalars.h"
#include "embedding/transfer/staging_buffer.h"

namespace emblem::cuda {

template <class T>
Buffer<T> zeros(const Context& context, int64_t count) {
  Buffer<T> buffer(Device::kCuda, count);
  cuda_check(cudaMemsetAsync(buffer.data(), 0, count * sizeof(T), context.stream), "zeroing");
  return buffer;
}

// Memory of training passes: holds what backward needs from forward.
struct TrainScratch {
  TrainScratch() = default;
  // partial_stride: floats of the partial sum of a row that spans tiles.
  TrainScratch(const Context& context, int64_t positions, int64_t partial_stride, Sums sums);

  int64_t positions = 0;
  Buffer<uint32_t> rows, bag_of, missing, counts, arrivals;
  Buffer<uint2> unique_ranks;
  Buffer<float> coefficients, sorted_coefficients, partials;
  Buffer<UniqueRow> uniques;
  Buffer<Segment> segments;
  Buffer<Occurrence> occurrences;
  Buffer<char> sorting;   // with Sums::kDeterministic
  Buffer<float> squares;  // the same

  Buffer<unsigned long long> map;
  Buffer<uint32_t> leaders, key_occurrences, tickets, wait_tickets;
  Buffer<int64_t> before;

  InsertScratch insert(SelectScratch* select);
  void add_to(BatchRef& batch);
};

// Memory of passes that find rows and change no table: they may run between a training forward
// and its backward.
struct ReadScratch {
  ReadScratch() = default;
  // weight_bytes: of the longest row of tables with a cache; 0: there are none.
  ReadScratch(const Context& context, int64_t positions, int64_t weight_bytes,
              const TransferSettings& transfer);

  int64_t positions = 0;
  Buffer<uint32_t> rows;

  Buffer<unsigned long long> map;
  Buffer<uint32_t> entries, sorted, index;
  Buffer<uint2> occurrences;
  Buffer<char> staged;
  int64_t staged_stride = 0;
  Buffer<UncachedCounters> counters;
  std::unique_ptr<StagingBuffer> staging;  // buffer of fetch_uncached_rows

  UncachedRows uncached();
};

// Memory for copying rows into caches.
struct StageMemory {
  StageMemory() = default;
  StageMemory(const Context& context, int64_t positions, int64_t row_bytes,
              const TransferSettings& transfer);

  int64_t positions = 0;
  Buffer<uint32_t> missing, victims, write_back_rows, counters;
  Buffer<char> write_back;
  std::unique_ptr<StagingBuffer> staging;

  StageScratch ref();
};

// Memory that depends on the size of batches is allocated when one of that size is first seen.
struct DeviceLookup::Scratch {
  Buffer<BatchCounters> counters;
  Buffer<DeviceTableRef> tables;
  Buffer<double> norm;
  Buffer<SelectScratch> select;
  Buffer<UpdateScalars> step;  // by class, of the last set_step
  Buffer<FeatureCounts> feature_counts;
  TrainScratch train;
  ReadScratch read;
  StageMemory stage;
};

}  // namespace emblem::cuda
