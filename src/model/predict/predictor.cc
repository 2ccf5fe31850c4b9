#include "model/predict/predictor.h"

#include <algorithm>

#include "model/layers/outputs.h"

namespace emblem {

void Predictor::run(const Context& context, const ModelBatch& batch,
                    std::span<float> probabilities) {
  const PredictedOutput output{.spec = {.name = "probability"},
                               .values = {probabilities.data(), batch.rows, 1}};
  run(context, batch, {&output, 1});
}

void fill_rows(std::span<const PredictedOutput> outputs, const Model& model, int64_t begin,
               int64_t rows, const LogitsOfHead& logits) {
  for (const PredictedOutput& output : outputs) {
    const auto head = static_cast<size_t>(output.spec.head);
    View<const float> from = logits(head);
    from.rows = rows;
    compute_output(output.spec, model.heads().at(head).spec.classes, from,
                   output.values.row(begin));
  }
}

int64_t HostPredictor::piece_rows(int threads) {
  constexpr int64_t kOfAThread = 192;
  return kOfAThread * std::max(2, threads);
}

HostPredictor::HostPredictor(std::unique_ptr<Model> model, int64_t piece_rows)
    : model_(std::move(model)), piece_rows_(piece_rows), piece_(model_->sequence_of_feature()) {
  model_->graph().freeze();
}

void HostPredictor::run(const Context& context, const ModelBatch& batch,
                        std::span<const PredictedOutput> outputs) {
  for (int64_t begin = 0; begin < batch.rows; begin += piece_rows_) {
    const int64_t rows = std::min(piece_rows_, batch.rows - begin);
    model_->forward(context, piece_.cut(batch, begin, rows), Phase::kEval, 0);
    fill_rows(outputs, *model_, begin, rows, [&](size_t head) { return model_->logits(head); });
  }
}

}  // namespace emblem
