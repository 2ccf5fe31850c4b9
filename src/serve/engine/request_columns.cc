#include "serve/engine/request_columns.h"

#include <algorithm>

#include "core/text/joined.h"
#include "data/feature/transform.h"
#include "data/format/text/csv_field.h"
#include "data/format/text/csv_types.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Input = RequestColumns::Input;

constexpr int64_t kMostRows = int64_t{1} << 24;

DataType input_type(const ColumnRequest& request) {
  if (request.weighted || !request.number_form.is_plain()) return DataType::kBytes;
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
    request.type =
        feature.settings.type == FeatureType::kRaw ? ColumnType::kFloat : ColumnType::kInt64;
    request.weighted = bag;
    request.separators.assign(bag ? 1 : 0, ' ');
    break;
  }
  return request;
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
  const bool csv = reads_as_requested(data.dataset_type());
  Input numbers{"numerical_features", DataType::kFp32, 0, {}};
  Input ids{"categorical_features", DataType::kInt64, 0, {}};
  std::vector<int> own;
  for (size_t i = 0; i < requests_.size(); ++i) {
    ColumnRequest& request = requests_[i];
    const auto column = static_cast<int>(i);
    const ColumnRequest shaped = csv ? request : as_stored(request, layout);
    columns_.push_back({request.name, shaped.type});
    if (csv || shaped.has_bags()) {
      request = shaped;
      own.push_back(column);
      continue;
    }
    Input& shared = shaped.type == ColumnType::kFloat ? numbers : ids;
    shared.columns.push_back(column);
    ++shared.width;
  }
  if (ids.width > 0) inputs_.push_back(std::move(ids));
  if (numbers.width > 0) inputs_.push_back(std::move(numbers));
  for (const int column : own) add_own_input(column);
}

void RequestColumns::add_own_input(int column) {
  const ColumnRequest& request = requests_[static_cast<size_t>(column)];
  Input input{.name = request.name,
              .type = input_type(request),
              .width = request.has_bags() ? -1 : 1,
              .columns = {column},
              .is_own = true,
              .is_sequence = !request.sequence_delim.empty()};
  for (Input& other : inputs_) {
    if (other.name != input.name) continue;
    EMBLEM_REQUIRE(other.is_own && other.is_sequence == input.is_sequence, "column ", input.name,
                   " is read as a sequence and as a value; requests have one input for it, so let "
                   "features read it in one way");
    if (other.type != input.type) other.type = DataType::kBytes;
    other.width = std::max(other.width, input.width);  // one value, where a feature takes one
    other.columns.push_back(column);
    return;
  }
  inputs_.push_back(std::move(input));
}

std::string RequestColumns::column_names(const Input& input) const {
  return joined(input.columns, ",",
                [&](int column) { return columns_[static_cast<size_t>(column)].name; });
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

const Input* RequestColumns::find(const std::string& tensor) const {
  for (const Input& input : inputs_) {
    if (input.name == tensor ||
        (input.is_sequence && RequestSequence::is_companion(tensor, input.name)))
      return &input;
  }
  return nullptr;
}

void RequestColumns::check_type(const Input& input, const InputTensor& tensor) const {
  EMBLEM_REQUIRE(input.is_own || tensor.type == input.type, "input '", tensor.name, "' is ",
                 name_of(tensor.type), ", expected ", name_of(input.type));
  for (const int column : input.columns) {
    const std::string problem =
        type_problem(tensor.type, input.type, requests_[static_cast<size_t>(column)]);
    EMBLEM_REQUIRE(!input.is_own || problem.empty(), "input '", tensor.name, "' ", problem);
  }
}

// The rows of an input that is not a sequence.
int64_t RequestColumns::check_tensor(const Input& input, const InputTensor& tensor) const {
  check_type(input, tensor);
  EMBLEM_REQUIRE(tensor.shape.size() == 2 && (input.width < 0 || tensor.shape[1] == input.width),
                 "input '", tensor.name, "' has shape ", shape_text(tensor.shape),
                 ", expected [-1,", input.width, "]");
  check_bytes(tensor);
  return tensor.shape[0];
}

int64_t RequestColumns::check(const InferRequest& request) const {
  int64_t rows = -1;
  size_t given = 0;
  std::string first;
  for (const InputTensor& tensor : request.inputs) {
    const Input* input = find(tensor.name);
    if (input == nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  cat("unexpected inference input '", tensor.name, "' for model '", request.model,
                      "'; its inputs are ", joined(inputs_, ", ", &Input::name)));
    }
    for (const InputTensor& other : request.inputs) {
      EMBLEM_REQUIRE(&other == &tensor || other.name != tensor.name, "input '", tensor.name,
                     "' is given twice");
    }
    if (input->name != tensor.name) continue;  // offsets or lengths
    if (input->is_sequence) check_type(*input, tensor);
    const int64_t found = input->is_sequence ? RequestSequence(request, input->name).check()
                                             : check_tensor(*input, tensor);
    EMBLEM_REQUIRE(rows < 0 || found == rows, "input '", tensor.name, "' has ", found,
                   " rows, but '", first, "' has ", rows);
    if (rows < 0) first = tensor.name;
    rows = found;
    ++given;
  }
  EMBLEM_REQUIRE(given == inputs_.size(), "expected ", inputs_.size(), " inputs but got ", given,
                 " for model '", request.model, "'; missing: ", missing_names(request));
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
    column.sequence_offsets.clear();
    if (requests_[i].has_bags()) column.offsets.push_back(0);
    if (!requests_[i].sequence_delim.empty()) column.sequence_offsets.push_back(0);
  }
}

// One value per row for each of the input's columns.
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

// The values of a row for one of the columns that read them.
void RequestColumns::append_values(const Input& input, const InputTensor& tensor, int64_t rows,
                                   int target, DecodedPiece& piece) const {
  const auto at = static_cast<size_t>(target);
  Column& column = piece.block.columns[at];
  const ColumnRequest& request = requests_[at];
  const CsvFieldParser parser(request, missing_, column);
  TensorValues values(tensor, request, parser, column);
  std::span<const std::byte> strings = tensor.data;
  require_room(input, column, tensor.data.size());
  const auto add = [&](int64_t i) {
    if (tensor.type != DataType::kBytes) return values.add(i);
    const std::string_view text = detail::take_string(strings);
    return request.has_bags() ? parser.add_values(text) : add_single(parser, text, column);
  };
  for (int64_t row = 0, i = 0; row < rows; ++row) {
    for (int64_t k = 0; k < tensor.shape[1]; ++k, ++i) {
      const std::string problem = add(i);
      if (!problem.empty()) throw_bad_text(tensor, row, problem);
    }
    if (request.has_bags()) parser.end_bag();
  }
}

void RequestColumns::append(const InferRequest& request, int64_t rows, DecodedPiece& piece) const {
  for (const Input& input : inputs_) {
    const RequestSequence sequence(request, input.name);
    for (const InputTensor& tensor : request.inputs) {
      if (tensor.name != input.name) continue;
      if (!input.is_own) append_singles(input, tensor, rows, piece);
      for (size_t i = 0; input.is_own && i < input.columns.size(); ++i) {
        const auto at = static_cast<size_t>(input.columns[i]);
        if (!input.is_sequence) {
          append_values(input, tensor, rows, input.columns[i], piece);
          continue;
        }
        Column& column = piece.block.columns[at];
        require_room(input, column, tensor.data.size());
        sequence.append(requests_[at], CsvFieldParser(requests_[at], missing_, column), rows,
                        column);
      }
    }
  }
  for (int64_t row = 0; row < rows; ++row) piece.positions.push_back(piece.block.rows + row);
  piece.block.rows += rows;
}

void RequestColumns::finish(DecodedPiece& piece) const {
  for (Column& column : piece.block.columns) {
    if (!column.offsets.empty()) drop_plain_offsets(column);
    const bool none_missing =
        std::find(column.missing.begin(), column.missing.end(), 1) == column.missing.end();
    if (none_missing) column.missing.clear();
  }
}

}  // namespace emblem
