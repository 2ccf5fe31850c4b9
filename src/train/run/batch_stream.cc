#include "train/run/batch_stream.h"

#include <array>
#include <utility>

#include "core/memory/block_pool.h"
#include "core/memory/pinned.h"
#include "model/lookup/batch_copier.h"

namespace emblem {

BatchSource batches_of(Loader& loader) {
  struct Turns {
    std::array<Batch, 2> batches;
    size_t next = 0;
  };
  return [&loader, turns = std::make_shared<Turns>()]() -> const Batch* {
    Batch& batch = turns->batches[turns->next];
    turns->next = 1 - turns->next;
    return loader.next(batch) ? &batch : nullptr;
  };
}

std::shared_ptr<std::pmr::memory_resource> batch_memory(const Context& context) {
  using Memory = std::shared_ptr<std::pmr::memory_resource>;
  return dispatch(
      context.device, []() -> Memory { return nullptr; },
      []() -> Memory {
        struct Pool {
          cuda::PinnedResource pinned;
          BlockPool blocks{&pinned};
        };
        const auto pool = std::make_shared<Pool>();
        return {pool, &pool->blocks};
      });
}

BatchStream::BatchStream(const Context& context, BatchSource source)
    : context_(context), source_(std::move(source)) {
  dispatch(
      context.device, [] {}, [&] { copier_ = std::make_shared<cuda::BatchCopier>(context_); });
}

// Into a slot whose batch, if there was one, has been released.
bool BatchStream::take(int number) {
  Slot& slot = slots_[number];
  // The source may change the batch that was there before.
  dispatch(
      context_.device, [] {}, [&] { copier_->wait_for_copy(number); });
  slot.host = source_();
  if (slot.host == nullptr) return false;
  const ModelBatch& view = slot.view.set(*slot.host);
  slot.there = dispatch(
      context_.device, [&] { return &view; },
      [&] {
        const ModelBatch* there = &copier_->copy(number, view);
        copier_->make_wait(number);
        return there;
      });
  return true;
}

bool BatchStream::next() {
  dispatch(
      context_.device, [] {}, [&] { copier_->release(slot_); });
  slot_ = 1 - slot_;
  if (problem_ != nullptr) std::rethrow_exception(std::exchange(problem_, nullptr));
  const Ahead ahead = std::exchange(ahead_, Ahead::kUnknown);
  return ahead == Ahead::kUnknown ? take(slot_) : ahead == Ahead::kThere;
}

const ModelBatch* BatchStream::look_ahead() {
  if (context_.device == Device::kCpu) return nullptr;
  const int coming = 1 - slot_;
  if (ahead_ == Ahead::kUnknown) {
    try {
      ahead_ = take(coming) ? Ahead::kThere : Ahead::kEnd;
    } catch (...) {
      problem_ = std::current_exception();
      ahead_ = Ahead::kEnd;
    }
  }
  return ahead_ == Ahead::kThere ? slots_[coming].there : nullptr;
}

}  // namespace emblem
