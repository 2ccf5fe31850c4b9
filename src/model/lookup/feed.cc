#include "model/lookup/feed.h"

#include "model/lookup/batch_copier.h"

namespace emblem {

Feed::Feed(const Context& context) : context_(context) {
  dispatch(
      context.device, [] {}, [&] { copier_ = std::make_shared<cuda::BatchCopier>(context_); });
}

const ModelBatch& Feed::set(const Batch& batch) {
  const ModelBatch& view = view_.set(batch);
  return dispatch(
      context_.device, [&]() -> const ModelBatch& { return view; },
      [&]() -> const ModelBatch& {
        copier_->release(slot_);
        slot_ = 1 - slot_;
        const ModelBatch& there = copier_->copy(slot_, view);
        copier_->make_wait(slot_);
        copier_->wait_for_copy(slot_);
        return there;
      });
}

}  // namespace emblem
