// train/batch_copier.h - batches on their way to the GPU. CUDA builds only.
#pragma once

#include <memory>
#include <vector>

#include "core/buffer.h"
#include "core/pinned.h"
#include "model/model.h"

namespace emblem::cuda {

// Copies a batch on a stream of its own while the one before is computed with: there is memory for
// two. Each goes through one piece of pinned host memory and is copied at once.
class BatchCopier {
 public:
  // `context` has the stream that computes.
  explicit BatchCopier(const Context& context);

  // The same batch in device memory, for work enqueued from now until the next call.
  const ModelBatch& copy(const ModelBatch& batch);

 private:
  struct Slot {
    std::unique_ptr<PinnedMemory> host;
    Buffer<char> device;
    Event copied;    // to the device
    Event consumed;  // by the computing stream
    std::vector<FeatureKeys> keys;
    ModelBatch batch;
  };
  // A part of a batch and its place in the slot.
  struct Piece {
    const void* from;
    size_t bytes, begin;
  };

  void make_room(Slot& slot, size_t bytes);
  void lay_out(const ModelBatch& batch);
  void point_at(const ModelBatch& batch, Slot& slot) const;

  Context context_;
  Stream stream_;
  Slot slots_[2];
  int current_ = 0;
  std::vector<Piece> pieces_;  // of the batch being copied, in the order of its parts
  size_t bytes_ = 0;
};

}  // namespace emblem::cuda
