// train/run/batch_stream.h - batches one after the other on the model's device: on a GPU, the next
// one is copied while one is computed with.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <memory_resource>

#include "data/loader/loader.h"
#include "model/lookup/batch_view.h"

namespace emblem {

namespace cuda {
class BatchCopier;
}

// The next batch, or null at the end. It stays as it is until the second call after.
using BatchSource = std::function<const Batch*()>;

// The batches of `loader`, which outlives it.
BatchSource batches_of(Loader& loader);

// Memory for batches that the context's device reads at full speed: LoaderOptions::memory. Null on
// a CPU: the heap is as good.
std::shared_ptr<std::pmr::memory_resource> batch_memory(const Context& context);

// One thread uses it.
class BatchStream {
 public:
  BatchStream(const Context& context, BatchSource source);
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  // Moves on to the next batch; false at the end. All work with the one before must be enqueued.
  bool next();
  const Batch& host() const { return *current().host; }         // as the source gave it
  const ModelBatch& batch() const { return *current().there; }  // on the device

  // On a GPU: takes the batch after this one from the source and has it copied; work enqueued from
  // now on waits for it. Null at the end, where the source throws (next() then does), and on a CPU.
  const ModelBatch* look_ahead();
  // Whether the source was asked for the batch after this one: next() does not ask it.
  bool has_looked_ahead() const { return ahead_ != Ahead::kUnknown; }

 private:
  struct Slot {
    const Batch* host = nullptr;
    const ModelBatch* there = nullptr;
    BatchView view;
  };
  enum class Ahead { kUnknown, kThere, kEnd };

  const Slot& current() const { return slots_[slot_]; }
  bool take(int slot);

  Context context_;
  BatchSource source_;
  Slot slots_[2];
  int slot_ = 0;
  Ahead ahead_ = Ahead::kUnknown;
  std::exception_ptr problem_;                 // problem of the source, when asked ahead
  std::shared_ptr<cuda::BatchCopier> copier_;  // on a GPU; waits for copies before the rest goes
};

}  // namespace emblem
