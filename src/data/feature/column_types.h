// data/feature/column_types.h - what a model was trained on (data_config.column_types), and keeps
// whatever it reads later: the kind of each column's values and how text was spelled, and whether
// ids are integers or text where keys depend on it: with dynamicemb an integer is its key, and text
// is hashed. Files with types have integers, CSV files text.
#pragma once

#include <string>
#include <vector>

#include "config/feature/features.h"
#include "data/feature/label_reader.h"
#include "data/format/block.h"
#include "data/format/text/spelling.h"

namespace emblem {

// The columns that a loader reads (Loader::columns) and what is found in those that are text, both
// by position in columns_needed. Empty where they are not known.
struct ColumnFacts {
  struct Texts {
    SpellingSample spelling;
    FloatTexts floats;
  };
  std::vector<ColumnSpec> columns;
  std::vector<Texts> texts;

  // Adds the text of a block with these columns.
  void add(const Block& block);
};

// Adds to data->column_types what it lacks, of the columns that a loader with these arguments
// reads.
void record_column_types(const FeatureLayout& features, LabelCheck labels, const ColumnFacts& facts,
                         config::DataConfig* data);

// The columns that may have been either in training, as `data` does not say: of streams with types
// in their messages, and of models that were trained before types were recorded.
std::vector<std::string> columns_of_unknown_type(const config::DataConfig& data,
                                                 const FeatureLayout& features);

// Logs them for `model`, which is to be served.
void warn_of_unknown_types(const std::string& model, const config::DataConfig& data,
                           const FeatureLayout& features);

}  // namespace emblem
