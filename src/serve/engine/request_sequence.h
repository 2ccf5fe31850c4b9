// serve/engine/request_sequence.h - a sequence in a request. Its elements come in one of three
// forms:
//
//   NAME BYTES [rows, 1]: one text a row, divided as the field of a CSV file.
//   NAME [elements(, values)] and NAME.offsets [rows + 1]: row r has elements
//     [offsets[r], offsets[r + 1]).
//   NAME [rows, T(, values)] and NAME.lengths [rows]: row r has its first lengths[r] elements;
//     without NAME.lengths all T.
//
// Values are of the input's type or BYTES, which are split as the elements of a CSV field are;
// offsets and lengths are INT32 or INT64.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "data/format/csv_field.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/tensor.h"

namespace emblem {

inline constexpr int64_t kMissingId = std::numeric_limits<int64_t>::min();

class RequestSequence {
 public:
  // Looks for the tensors of the input `name` in `request`, which outlives it.
  RequestSequence(const InferRequest& request, const std::string& name);

  bool is_given() const { return values_ != nullptr; }

  // Whether `tensor` is NAME.offsets or NAME.lengths of a sequence `name`.
  static bool is_companion(const std::string& tensor, const std::string& name);

  // The rows. Throws kInvalidArgument when types, shapes, offsets or lengths do not fit; `type` is
  // that of the input.
  int64_t check(DataType type) const;

  // Adds the rows to `column`, which is read as `parser` says. Throws kInvalidArgument for text
  // that is no value.
  void append(const CsvFieldParser& parser, int64_t rows, Column& column) const;

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

// Value `at` of a tensor of T.
template <class T>
T value_at(const InputTensor& tensor, int64_t at);

// Adds an id, or a missing one for kMissingId.
void append_id(int64_t id, Column& column);

// What is wrong with the text of a value, which is not shown when it is in shared memory.
[[noreturn]] void throw_bad_text(const InputTensor& tensor, int64_t row,
                                 const std::string& problem);

// ---- implementation ----

template <class T>
T value_at(const InputTensor& tensor, int64_t at) {
  T value;
  std::memcpy(&value, tensor.data.data() + static_cast<size_t>(at) * sizeof(T), sizeof(T));
  return value;
}

}  // namespace emblem
