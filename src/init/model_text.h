// init/model_text.h - the model_config of a pipeline.
#pragma once

#include <string>
#include <vector>

#include "init/feature_text.h"
#include "init/label_choice.h"

namespace emblem {

struct ModelSizes {
  int64_t embedding_dim = 8;
  std::string hidden;  // "[64, 32]"
  double dropout = 0;
};

// The model for these features, this label and about `rows` rows; `wanted` is one of
// starter_models(), or "". Throws Error when that one cannot read the features or learn the label.
std::string choose_model(const std::vector<ColumnChoice>& columns, const LabelChoice& label,
                         double rows, const std::string& wanted);

// Whether a model has embeddings, and groups for sequences.
bool has_embeddings(const std::string& model);
bool reads_sequences(const std::string& model);

std::string model_text(const std::string& model, const std::vector<WrittenFeature>& features,
                       const LabelChoice& label, const ModelSizes& sizes);

}  // namespace emblem
