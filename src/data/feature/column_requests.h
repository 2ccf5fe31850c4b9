// data/feature/column_requests.h - the columns that a pipeline reads, and the types as which CSV
// text is read for them.
#pragma once

#include <string>
#include <vector>

#include "config/feature/features.h"
#include "data/feature/fg/operator.h"
#include "data/feature/label_reader.h"
#include "data/format/decoder.h"

namespace emblem {

// Columns of the features, labels and weights of a pipeline.
std::vector<ColumnRequest> columns_needed(const config::DataConfig& data,
                                          const FeatureLayout& features, LabelCheck labels);

// How input `input` of a feature is read. `operation` is null for id and raw features, and under
// FG_NONE and FG_BUCKETIZE, where the column holds the feature's own values.
ColumnRequest request_for_input(const FeatureSpec& feature, size_t input,
                                const FgOperator* operation, const Semantics& semantics,
                                const config::DataConfig& data);

// What the checkpoint says of a column (data_config.column_types); kUnknown where it says nothing.
TrainedValues trained_values_of(const config::DataConfig& data, const std::string& column);

// Null where a feature is its input: of id and raw features, and where values are computed already.
std::unique_ptr<FgOperator> operator_of(const FeatureSpec& feature, const Semantics& semantics);

// Formats whose columns become what a request says.
bool reads_as_requested(config::DatasetType type);

// The position in `requests` of the column that `wanted` asks for; -1 when it is not among them.
int position_of(const ColumnRequest& wanted, const std::vector<ColumnRequest>& requests,
                config::DatasetType type);

}  // namespace emblem
