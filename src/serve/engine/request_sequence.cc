#include "serve/engine/request_sequence.h"

#include <algorithm>

#include "emblem/error.h"

namespace emblem {
namespace {

constexpr const char* kOffsets = ".offsets";
constexpr const char* kLengths = ".lengths";

const InputTensor* find(const InferRequest& request, const std::string& name) {
  const auto found = std::find_if(request.inputs.begin(), request.inputs.end(),
                                  [&](const InputTensor& tensor) { return tensor.name == name; });
  return found == request.inputs.end() ? nullptr : &*found;
}

// The entries of a vector of counts.
int64_t entries(const InputTensor& tensor) {
  EMBLEM_REQUIRE(tensor.type == DataType::kInt32 || tensor.type == DataType::kInt64, "input '",
                 tensor.name, "' is ", name_of(tensor.type), ", expected INT32 or INT64");
  const bool is_vector =
      tensor.shape.size() == 1 || (tensor.shape.size() == 2 && tensor.shape[1] == 1);
  EMBLEM_REQUIRE(is_vector, "input '", tensor.name, "' has shape ", shape_text(tensor.shape),
                 ", expected one dimension");
  check_bytes(tensor);
  return tensor.shape[0];
}

}  // namespace

RequestSequence::RequestSequence(const InferRequest& request, const std::string& name)
    : name_(name),
      values_(find(request, name)),
      offsets_(find(request, name + kOffsets)),
      lengths_(find(request, name + kLengths)) {}

bool RequestSequence::is_companion(const std::string& tensor, const std::string& name) {
  return tensor == name + kOffsets || tensor == name + kLengths;
}

int64_t RequestSequence::count_at(const InputTensor& tensor, int64_t at) const {
  return tensor.type == DataType::kInt32 ? value_at<int32_t>(tensor, at)
                                         : value_at<int64_t>(tensor, at);
}

int64_t RequestSequence::check() const {
  EMBLEM_REQUIRE(offsets_ == nullptr || lengths_ == nullptr, "inputs '", name_, kOffsets, "' and '",
                 name_, kLengths, "' are both given; give one of them");
  check_bytes(*values_);
  const int64_t rows = offsets_ != nullptr ? check_offsets() : check_padded();
  // Else the size of a request would not bound its elements.
  EMBLEM_REQUIRE(values_per_element() > 0, "input '", name_, "' has shape ",
                 shape_text(values_->shape), ", expected at least one value in an element");
  return rows;
}

int64_t RequestSequence::check_offsets() const {
  const size_t dimensions = values_->shape.size();
  EMBLEM_REQUIRE(dimensions == 1 || dimensions == 2, "input '", name_, "' has shape ",
                 shape_text(values_->shape), ", expected [elements] or [elements, values] beside '",
                 name_, kOffsets, "'");
  const int64_t rows = entries(*offsets_) - 1;
  EMBLEM_REQUIRE(rows >= 0, "input '", name_, kOffsets, "' is empty, expected rows + 1 offsets");
  EMBLEM_REQUIRE(count_at(*offsets_, 0) == 0, "input '", name_, kOffsets, "' starts with ",
                 count_at(*offsets_, 0), ", expected 0");
  for (int64_t row = 0; row < rows; ++row) {
    EMBLEM_REQUIRE(count_at(*offsets_, row) <= count_at(*offsets_, row + 1), "input '", name_,
                   kOffsets, "' falls from ", count_at(*offsets_, row), " to ",
                   count_at(*offsets_, row + 1), " at row ", row, ", expected rising offsets");
  }
  EMBLEM_REQUIRE(count_at(*offsets_, rows) == values_->shape[0], "input '", name_, kOffsets,
                 "' ends with ", count_at(*offsets_, rows), ", but '", name_, "' has ",
                 values_->shape[0], " elements");
  return rows;
}

int64_t RequestSequence::check_padded() const {
  const std::vector<int64_t>& shape = values_->shape;
  const bool is_text = values_->type == DataType::kBytes && lengths_ == nullptr;
  EMBLEM_REQUIRE(shape.size() == 2 || (shape.size() == 3 && !is_text), "input '", name_,
                 "' has shape ", shape_text(shape), ", expected [rows, elements] (or '", name_,
                 kOffsets, "' beside it)");
  EMBLEM_REQUIRE(!is_text || shape[1] == 1, "input '", name_, "' has shape ", shape_text(shape),
                 ", expected [rows, 1]: one text per row (or '", name_, kLengths, "' beside it)");
  if (lengths_ == nullptr) return shape[0];
  const int64_t rows = entries(*lengths_);
  EMBLEM_REQUIRE(rows == shape[0], "input '", name_, kLengths, "' has ", rows, " rows, but '",
                 name_, "' has ", shape[0]);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t length = count_at(*lengths_, row);
    EMBLEM_REQUIRE(length >= 0 && length <= shape[1], "input '", name_, kLengths, "', row ", row,
                   ": ", length, " is not a length (expected 0 to ", shape[1], ")");
  }
  return rows;
}

int64_t RequestSequence::values_per_element() const {
  const size_t at = offsets_ != nullptr ? 1 : 2;
  return values_->shape.size() > at ? values_->shape[at] : 1;
}

void RequestSequence::append(const ColumnRequest& request, const CsvFieldParser& parser,
                             int64_t rows, Column& column) const {
  const int64_t width = values_per_element();
  const bool is_text = values_->type == DataType::kBytes;
  std::span<const std::byte> strings = values_->data;
  const auto require = [&](const std::string& problem, int64_t row) {
    if (!problem.empty()) throw_bad_text(*values_, row, problem);
  };
  if (is_text && offsets_ == nullptr && lengths_ == nullptr) {
    for (int64_t row = 0; row < rows; ++row) {
      require(parser.add_elements(detail::take_string(strings)), row);
      parser.end_sequence();
    }
    return;
  }
  TensorValues values(*values_, request, parser, column);
  const auto add_element = [&](int64_t element, int64_t row) {
    for (int64_t i = element * width; i < (element + 1) * width; ++i) {
      require(is_text ? parser.add_values(detail::take_string(strings)) : values.add(i), row);
    }
    parser.end_bag();
  };
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t room = offsets_ != nullptr ? 0 : values_->shape[1];
    const int64_t begin = offsets_ != nullptr ? count_at(*offsets_, row) : row * room;
    const int64_t count = offsets_ != nullptr   ? count_at(*offsets_, row + 1) - begin
                          : lengths_ != nullptr ? count_at(*lengths_, row)
                                                : room;
    for (int64_t i = 0; i < count; ++i) add_element(begin + i, row);
    for (int64_t i = count * width; is_text && i < room * width; ++i) detail::take_string(strings);
    parser.end_sequence();
  }
}

void throw_bad_text(const InputTensor& tensor, int64_t row, const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument,
              cat("input '", tensor.name, "', row ", row, ": ",
                  tensor.in_shared_memory ? "a value is not valid; it is in shared memory and not "
                                            "shown, send the input to see it"
                                          : problem));
}

}  // namespace emblem
