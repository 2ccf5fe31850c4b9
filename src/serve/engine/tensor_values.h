// serve/engine/tensor_values.h - elements of tensors with a type as values of a column: the same
// that a file with a column of this type gives (docs/formats.md, "The text of a value").
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "data/format/text/csv_field.h"
#include "serve/protocol/tensor.h"

namespace emblem {

// Why a tensor of this type cannot be read for `request`, as in `is FP16, expected BYTES`; "": it
// can. `declared` is the type that the model shows.
std::string type_problem(DataType type, DataType declared, const ColumnRequest& request);

// Adds elements of a tensor that is not of BYTES to a column. Borrows what it is given.
class TensorValues {
 public:
  TensorValues(const InputTensor& tensor, const ColumnRequest& request,
               const CsvFieldParser& parser, Column& column)
      : tensor_(tensor), request_(request), parser_(parser), column_(column) {}

  // Element `at`: the one value of a row, or one of the bag or element that the caller ends.
  // Returns what is wrong with it, or "".
  std::string add(int64_t at);

 private:
  std::string add_text(int64_t at);

  const InputTensor& tensor_;
  const ColumnRequest& request_;
  const CsvFieldParser& parser_;
  Column& column_;
  std::string text_;
};

// Value `at` of a tensor of T.
template <class T>
T value_at(const InputTensor& tensor, int64_t at) {
  T value;
  std::memcpy(&value, tensor.data.data() + static_cast<size_t>(at) * sizeof(T), sizeof(T));
  return value;
}

// Appends the one value of a row, which `parser` reads. Returns what is wrong with it, or "".
std::string add_single(const CsvFieldParser& parser, std::string_view text, Column& column);

// Adds an id, or a missing one for kMissingId.
void append_id(int64_t id, Column& column);

}  // namespace emblem
