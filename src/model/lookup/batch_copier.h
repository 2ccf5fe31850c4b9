// model/lookup/batch_copier.h - batches on their way to the GPU. CUDA builds only.
#pragma once

#include <vector>

#include "core/device/stream.h"
#include "core/memory/buffer.h"
#include "model/model_batch.h"

namespace emblem::cuda {

// Copies batches to device memory on a separate stream, in parallel to the work of the stream that
// computes. There is room for two: "slots" 0 and 1. Nothing but wait_for_copy and the first batch
// of a size waits.
class BatchCopier {
 public:
  // `context` has the stream that computes.
  explicit BatchCopier(const Context& context);
  ~BatchCopier();  // waits for its copies

  // The batch in device memory, once all work that was enqueued before release(slot) is done.
  // `batch`, in host memory, must stay as it is until wait_for_copy(slot); where it is pinned, it
  // is read by the GPU on its own.
  const ModelBatch& copy(int slot, const ModelBatch& batch);
  // The computing stream continues once the copy is there.
  void make_wait(int slot) { slots_[slot].copied.make_wait(context_.stream); }
  // Blocks until the last copy into the slot is done; at once when there was none.
  void wait_for_copy(int slot) { slots_[slot].copied.synchronize(); }
  // All work with what is in the slot has been enqueued.
  void release(int slot) { slots_[slot].consumed.record(context_.stream); }

 private:
  struct Slot {
    Buffer<char> device;
    Event copied;    // to the device
    Event consumed;  // by the computing stream
    std::vector<FeatureKeys> keys;
    std::vector<SequenceView> sequences;
    ModelBatch batch;
  };

  static void make_room(const ModelBatch& batch, Slot& slot);

  Context context_, copying_;
  Stream stream_;
  Slot slots_[2];
};

}  // namespace emblem::cuda
