#include "model/lookup/batch_copier.h"

#include <algorithm>

#include "emblem/error.h"

namespace emblem::cuda {
namespace {

constexpr size_t kAlignment = 256;

template <class T>
size_t bytes_of(View<const T> view) {
  return static_cast<size_t>(view.size()) * sizeof(T);
}

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

size_t room_for(const ModelBatch& batch) {
  size_t bytes = aligned(bytes_of(batch.dense)) + aligned(bytes_of(batch.labels)) +
                 aligned(bytes_of(batch.weights)) + aligned(bytes_of(batch.candidate_logs)) +
                 aligned(bytes_of(batch.candidate_of));
  for (const FeatureKeys& feature : batch.sparse)
    bytes += aligned(bytes_of(feature.keys)) + aligned(bytes_of(feature.offsets)) +
             aligned(bytes_of(feature.weights));
  for (const SequenceView& sequence : batch.sequences)
    bytes += aligned(bytes_of(sequence.offsets)) + aligned(bytes_of(sequence.numbers));
  return bytes;
}

}  // namespace

BatchCopier::BatchCopier(const Context& context) : context_(context), copying_(context) {
  copying_.stream = stream_.get();
}

BatchCopier::~BatchCopier() {
  try {
    for (Slot& slot : slots_) slot.copied.synchronize();
  } catch (const Error&) {  // what is wrong with the GPU has been said elsewhere
  }
}

void BatchCopier::make_room(const ModelBatch& batch, Slot& slot) {
  const size_t bytes = room_for(batch);
  if (bytes <= static_cast<size_t>(slot.device.size())) return;
  slot.consumed.synchronize();
  const size_t roomy = std::max(bytes + bytes / 4, kAlignment);  // numbers of keys vary
  slot.device = Buffer<char>(Device::kCuda, static_cast<int64_t>(roomy));
}

const ModelBatch& BatchCopier::copy(int number, const ModelBatch& batch) {
  Slot& slot = slots_[number];
  make_room(batch, slot);
  slot.consumed.make_wait(copying_.stream);
  char* next = slot.device.data();
  const auto copied = [&](auto view) {
    const size_t bytes = bytes_of(view);
    if (bytes > 0) copy_async(copying_, next, view.data, bytes);
    view.data = reinterpret_cast<decltype(view.data)>(next);
    view.device = Device::kCuda;
    next += aligned(bytes);
    return view;
  };
  slot.batch.rows = batch.rows;
  slot.batch.dense = copied(batch.dense);
  slot.batch.labels = copied(batch.labels);
  slot.batch.weights = copied(batch.weights);
  slot.keys.clear();
  for (const FeatureKeys& feature : batch.sparse)
    slot.keys.push_back({copied(feature.keys), copied(feature.offsets), copied(feature.weights)});
  slot.batch.sparse = slot.keys;
  slot.sequences.clear();
  for (const SequenceView& sequence : batch.sequences)
    slot.sequences.push_back(
        {sequence.elements, copied(sequence.offsets), copied(sequence.numbers)});
  slot.batch.sequences = slot.sequences;
  slot.batch.candidate_logs = copied(batch.candidate_logs);
  slot.batch.candidate_of = copied(batch.candidate_of);
  slot.copied.record(copying_.stream);
  return slot.batch;
}

}  // namespace emblem::cuda
