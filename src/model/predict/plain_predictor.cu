#include <algorithm>
#include <exception>

#include "emblem/error.h"
#include "model/predict/plain_predictor.h"

namespace emblem::cuda {
namespace {

// After an error, work with the batch that was enqueued before it may still read or write memory
// that the next batch uses.
class WaitAfterError {
 public:
  WaitAfterError(const Context& context, BatchCopier& copier)
      : context_(context), copier_(copier), exceptions_(std::uncaught_exceptions()) {}
  ~WaitAfterError() {
    if (std::uncaught_exceptions() == exceptions_) return;
    try {
      copier_.wait_for_copy(0);
      context_.synchronize();
    } catch (const Error&) {  // the first error is the one to report
    }
  }
  WaitAfterError(const WaitAfterError&) = delete;

 private:
  const Context& context_;
  BatchCopier& copier_;
  int exceptions_;
};

}  // namespace

PlainPredictor::PlainPredictor(const Context& context, std::unique_ptr<Model> model,
                               int64_t max_rows)
    : context_(context),
      model_(std::move(model)),
      max_rows_(max_rows),
      piece_(model_->sequence_of_feature()),
      copier_(context),
      logits_(model_->heads().size()) {
  model_->graph().freeze();
}

void PlainPredictor::run(const Context& context, const ModelBatch& batch,
                         std::span<const PredictedOutput> outputs) {
  context_.threads = context.threads;
  const WaitAfterError wait(context_, copier_);
  for (int64_t begin = 0; begin < batch.rows; begin += max_rows_) {
    const int64_t rows = std::min(max_rows_, batch.rows - begin);
    const ModelBatch& there = copier_.copy(0, piece_.cut(batch, begin, rows));
    copier_.make_wait(0);
    model_->forward(context_, there, Phase::kEval, 0);
    copier_.release(0);
    for (size_t head = 0; head < logits_.size(); ++head) {
      if (model_->heads()[head].spec.in_training_only) continue;
      const View<const float> from = model_->logits(head);
      logits_[head].resize(static_cast<size_t>(from.size()));
      copy_async(context_, logits_[head].data(), from.data, logits_[head].size() * sizeof(float));
    }
    context_.synchronize();
    fill_rows(outputs, *model_, begin, rows, [&](size_t head) {
      return View<const float>{logits_[head].data(), rows,
                               std::ssize(logits_[head]) / std::max<int64_t>(rows, 1)};
    });
  }
}

}  // namespace emblem::cuda
