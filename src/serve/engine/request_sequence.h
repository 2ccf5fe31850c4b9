// serve/engine/request_sequence.h - a sequence in a request. Its elements come in one of three
// forms:
//
//   NAME BYTES [rows, 1]: one text per row, divided as the field of a CSV file.
//   NAME [elements(, values)] and NAME.offsets [rows + 1]: row r has elements
//     [offsets[r], offsets[r + 1]).
//   NAME [rows, T(, values)] and NAME.lengths [rows]: row r has its first lengths[r] elements;
//     without NAME.lengths all T.
//
// Values are of any type (serve/engine/tensor_values.h); BYTES are split as the elements of a CSV
// field are. Offsets and lengths are INT32 or INT64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/format/text/csv_field.h"
#include "serve/engine/tensor_values.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/tensor.h"

namespace emblem {

class RequestSequence {
 public:
  // Looks for the tensors of the input `name` in `request`, which outlives it.
  RequestSequence(const InferRequest& request, const std::string& name);

  bool is_given() const { return values_ != nullptr; }

  // Whether `tensor` is NAME.offsets or NAME.lengths of a sequence `name`.
  static bool is_companion(const std::string& tensor, const std::string& name);

  // The rows. Throws kInvalidArgument when shapes, offsets or lengths do not fit.
  int64_t check() const;

  // Adds the rows to `column`, which is read as `request` and its `parser` say. Throws
  // kInvalidArgument for what is no value.
  void append(const ColumnRequest& request, const CsvFieldParser& parser, int64_t rows,
              Column& column) const;

 private:
  int64_t count_at(const InputTensor& tensor, int64_t at) const;
  int64_t check_offsets() const;
  int64_t check_padded() const;
  int64_t values_per_element() const;

  std::string name_;
  const InputTensor* values_ = nullptr;
  const InputTensor* offsets_ = nullptr;
  const InputTensor* lengths_ = nullptr;
};

// What is wrong with the text of a value, which is not shown when it is in shared memory.
[[noreturn]] void throw_bad_text(const InputTensor& tensor, int64_t row,
                                 const std::string& problem);

}  // namespace emblem
