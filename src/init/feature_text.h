// init/feature_text.h - the feature_configs of a pipeline.
#pragma once

#include <string>
#include <vector>

#include "init/column_choice.h"

namespace emblem {

struct WrittenFeature {
  enum class Kind { kCategory, kNumber, kSequence };
  std::string name;
  Kind kind = Kind::kCategory;
  std::string text;    // with its comment
  std::string target;  // kSequence: the feature that is its query
};

struct FeatureSizes {
  int64_t embedding_dim = 8;  // 0: of models without embeddings
  int64_t bins = 0;           // most bins of a number
  // Whether the model reads sequences; else their elements are pooled.
  enum class Lists { kSequences, kPooled } lists = Lists::kSequences;
};

// Features of all columns that are used, in their order.
std::vector<WrittenFeature> write_features(const DataProfile& profile,
                                           const std::vector<ColumnChoice>& columns,
                                           const FeatureSizes& sizes);

// "# Skipped columns: ..." as comments; "" when there is none.
std::string skipped_text(const DataProfile& profile, const std::vector<ColumnChoice>& columns);

// Quoted names, several on a line.
std::string quoted_lines(const std::vector<std::string>& names, const std::string& indent);

// Rows of a dynamic table for `distinct` values.
int64_t capacity_for(int64_t distinct);

}  // namespace emblem
