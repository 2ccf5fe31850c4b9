// data/feature/column_types.h - whether the ids of a column are integers or text, where the keys of
// its features depend on it: with dynamicemb an integer is its key, and text is hashed. Files with
// types have integers, CSV files text; a trained model keeps what it was trained on
// (data_config.column_types), whatever it reads later.
#pragma once

#include <string>
#include <vector>

#include "config/features.h"
#include "data/feature/label_reader.h"
#include "data/format/block.h"

namespace emblem {

// Adds to data->column_types what it lacks: the types of the columns that a loader with these
// arguments reads (Loader::columns). Where `columns` is empty they are not known, and nothing is
// added.
void record_column_types(const FeatureLayout& features, LabelCheck labels,
                         const std::vector<ColumnSpec>& columns, config::DataConfig* data);

// The columns that may have been either in training, as `data` does not say: of streams with types
// in their messages, and of models that were trained before types were recorded.
std::vector<std::string> columns_of_unknown_type(const config::DataConfig& data,
                                                 const FeatureLayout& features);

// Logs them for `model`, which is to be served.
void warn_of_unknown_types(const std::string& model, const config::DataConfig& data,
                           const FeatureLayout& features);

}  // namespace emblem
