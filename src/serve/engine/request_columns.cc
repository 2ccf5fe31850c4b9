#include "serve/engine/request_columns.h"

#include <algorithm>
#include <cstring>

#include "data/feature/transform.h"
#include "data/format/csv_field.h"
#include "data/format/csv_types.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Input = RequestColumns::Input;

constexpr int64_t kMostRows = int64_t{1} << 24;

DataType input_type(const ColumnRequest& request) {
  if (request.weighted) return DataType::kBytes;
  switch (request.type) {
    case ColumnType::kFloat:
      return DataType::kFp32;
    case ColumnType::kInt64:
      return DataType::kInt64;
    case ColumnType::kText:
      break;
  }
  return DataType::kBytes;
}

// The columns of formats that know their types give them whatever the feature asks for.
ColumnRequest as_stored(ColumnRequest request, const FeatureLayout& layout) {
  for (const FeatureSpec& feature : layout.features) {
    if (feature.column != request.name) continue;
    const bool bag = request.name == "features";  // libfm lines of varying length
    request.type = feature.config.has_raw_feature() ? ColumnType::kFloat : ColumnType::kInt64;
    request.weighted = bag;
    request.separators.assign(bag ? 1 : 0, ' ');
    break;
  }
  return request;
}

template <class T>
T value_at(const InputTensor& tensor, int64_t at) {
  T value;
  std::memcpy(&value, tensor.data.data() + static_cast<size_t>(at) * sizeof(T), sizeof(T));
  return value;
}

void append_id(int64_t id, Column& column) {
  if (id == kMissingId && column.missing.empty()) column.missing.resize(column.ints.size(), 0);
  if (id == kMissingId || !column.missing.empty()) column.missing.push_back(id == kMissingId);
  column.ints.push_back(id == kMissingId ? 0 : id);
}

// Offsets of values are 32-bit: what a batch holds beyond that must run in smaller batches.
void require_room(const Input& input, const Column& column, size_t more_bytes) {
  const size_t most = std::numeric_limits<int32_t>::max();
  EMBLEM_REQUIRE(column.text.size() + more_bytes <= most && values_in(column) + more_bytes <= most,
                 "input '", input.name, "' has ", more_bytes, " bytes; a batch takes up to ", most,
                 " of a column: send fewer rows in a request");
}

}  // namespace

RequestColumns::RequestColumns(const config::DataConfig& data, const FeatureLayout& layout)
    : requests_(columns_needed(data, layout, LabelCheck::kIgnore)),
      missing_({data.na_strings().begin(), data.na_strings().end()}) {
  const bool csv = data.dataset_type() == config::CsvDataset;
  Input numbers{"numerical_features", DataType::kFp32, 0, {}};
  Input ids{"categorical_features", DataType::kInt64, 0, {}};
  std::vector<Input> own;
  for (size_t i = 0; i < requests_.size(); ++i) {
    ColumnRequest& request = requests_[i];
    const auto column = static_cast<int>(i);
    const ColumnRequest shaped = csv ? request : as_stored(request, layout);
    columns_.push_back({request.name, shaped.type});
    if (csv || !shaped.separators.empty()) {
      request = shaped;
      own.push_back(
          {request.name, input_type(request), request.separators.empty() ? 1 : -1, {column}});
      continue;
    }
    Input& shared = shaped.type == ColumnType::kFloat ? numbers : ids;
    shared.columns.push_back(column);
    ++shared.width;
  }
  if (ids.width > 0) inputs_.push_back(std::move(ids));
  if (numbers.width > 0) inputs_.push_back(std::move(numbers));
  for (Input& input : own) {
    for (const Input& other : inputs_) {
      EMBLEM_REQUIRE(other.name != input.name, "column ", input.name,
                     " is read by features with different types or separators; requests have one "
                     "input for it, so give the features the same");
    }
    inputs_.push_back(std::move(input));
  }
}

std::string RequestColumns::column_names(const Input& input) const {
  std::string names;
  for (const int column : input.columns)
    names += (names.empty() ? "" : ",") + columns_[static_cast<size_t>(column)].name;
  return names;
}

std::string RequestColumns::missing_names(const InferRequest& request) const {
  std::string names;
  for (const Input& input : inputs_) {
    const bool is_given = std::any_of(request.inputs.begin(), request.inputs.end(),
                                      [&](const auto& given) { return given.name == input.name; });
    if (!is_given) names += (names.empty() ? "" : ", ") + input.name;
  }
  return names;
}

int64_t RequestColumns::check(const InferRequest& request) const {
  int64_t rows = -1;
  for (const InputTensor& tensor : request.inputs) {
    const auto found = std::find_if(inputs_.begin(), inputs_.end(),
                                    [&](const Input& input) { return input.name == tensor.name; });
    if (found == inputs_.end()) {
      std::string names;
      for (const Input& input : inputs_) names += (names.empty() ? "" : ", ") + input.name;
      throw Error(ErrorCode::kInvalidArgument,
                  cat("unexpected inference input '", tensor.name, "' for model '", request.model,
                      "'; its inputs are ", names));
    }
    EMBLEM_REQUIRE(tensor.type == found->type, "input '", tensor.name, "' is ",
                   name_of(tensor.type), ", expected ", name_of(found->type));
    EMBLEM_REQUIRE(
        tensor.shape.size() == 2 && (found->width < 0 || tensor.shape[1] == found->width),
        "input '", tensor.name, "' has shape ", shape_text(tensor.shape), ", expected [-1,",
        found->width, "]");
    check_bytes(tensor);
    EMBLEM_REQUIRE(rows < 0 || tensor.shape[0] == rows, "input '", tensor.name, "' has ",
                   tensor.shape[0], " rows, but '", request.inputs.front().name, "' has ", rows);
    rows = tensor.shape[0];
    for (const InputTensor& other : request.inputs) {
      EMBLEM_REQUIRE(&other == &tensor || other.name != tensor.name, "input '", tensor.name,
                     "' is given twice");
    }
  }
  EMBLEM_REQUIRE(request.inputs.size() == inputs_.size(), "expected ", inputs_.size(),
                 " inputs but got ", request.inputs.size(), " for model '", request.model,
                 "'; missing: ", missing_names(request));
  EMBLEM_REQUIRE(rows > 0, "a request needs at least one row");
  // A row without values takes no bytes: the size of a request does not bound its rows.
  EMBLEM_REQUIRE(rows <= kMostRows, "a request has ", rows, " rows; up to ", kMostRows,
                 " are allowed");
  return rows;
}

void RequestColumns::clear(DecodedPiece& piece) const {
  piece.block.rows = 0;
  piece.bad = {};
  piece.positions.clear();
  piece.block.columns.resize(columns_.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    Column& column = piece.block.columns[i];
    column.type = columns_[i].type;
    column.floats.clear();
    column.ints.clear();
    column.text.clear();
    column.text_ends.clear();
    column.missing.clear();
    column.offsets.clear();
    column.weights.clear();
    if (!requests_[i].separators.empty()) column.offsets.push_back(0);
  }
}

// One value a row for each of the input's columns.
void RequestColumns::append_singles(const Input& input, const InputTensor& tensor, int64_t rows,
                                    DecodedPiece& piece) const {
  const auto width = static_cast<int64_t>(input.columns.size());
  for (int64_t c = 0; c < width; ++c) {
    Column& column =
        piece.block.columns[static_cast<size_t>(input.columns[static_cast<size_t>(c)])];
    for (int64_t row = 0; row < rows; ++row) {
      if (input.type == DataType::kFp32) {
        column.floats.push_back(value_at<float>(tensor, row * width + c));
      } else {
        append_id(value_at<int64_t>(tensor, row * width + c), column);
      }
    }
  }
}

void RequestColumns::append_bags(const Input& input, const InputTensor& tensor, int64_t rows,
                                 DecodedPiece& piece) const {
  const auto at = static_cast<size_t>(input.columns[0]);
  Column& column = piece.block.columns[at];
  const CsvFieldParser parser(requests_[at], missing_, column);
  std::span<const std::byte> strings = tensor.data;
  require_room(input, column, tensor.data.size());
  for (int64_t row = 0, i = 0; row < rows; ++row) {
    for (int64_t k = 0; k < tensor.shape[1]; ++k, ++i) {
      if (input.type == DataType::kFp32) {
        column.floats.push_back(value_at<float>(tensor, i));
      } else if (input.type == DataType::kInt64) {
        append_id(value_at<int64_t>(tensor, i), column);
      } else {
        const std::string problem = parser.add_values(detail::take_string(strings));
        EMBLEM_REQUIRE(problem.empty(), "input '", input.name, "', row ", row, ": ",
                       tensor.in_shared_memory
                           ? "a value is not valid; it is in shared memory and not shown, send the "
                             "input to see it"
                           : problem);
      }
    }
    parser.end_row();
  }
}

void RequestColumns::append(const InferRequest& request, int64_t rows, DecodedPiece& piece) const {
  for (const InputTensor& tensor : request.inputs) {
    for (const Input& input : inputs_) {
      if (input.name != tensor.name) continue;
      if (input.width > 0) {
        append_singles(input, tensor, rows, piece);
      } else {
        append_bags(input, tensor, rows, piece);
      }
    }
  }
  for (int64_t row = 0; row < rows; ++row) piece.positions.push_back(piece.block.rows + row);
  piece.block.rows += rows;
}

void RequestColumns::finish(DecodedPiece& piece) const {
  for (Column& column : piece.block.columns) {
    if (!column.offsets.empty()) drop_plain_offsets(column);
  }
}

}  // namespace emblem
