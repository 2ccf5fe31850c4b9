// serve/engine/request_columns.h - raw values in requests as the columns that a pipeline's features
// read, so that they get exactly the treatment of training.
//
// Data sets of fixed shape (Criteo TSV, Raw, split, libfm with one value per field) are asked for
// by two inputs: numerical_features FP32 [numbers] and categorical_features INT64 [ids], in the
// order in which the pipeline's features first read the columns. Columns of CSV files are inputs of
// their own: FP32, INT64 or BYTES (text, and "key:weight") of shape [-1], the values of a row, any
// number of them. A BYTES element may hold several values: it is split as the field of a CSV file.
// These inputs are also taken as BYTES, BOOL, integers of any width, FP32 and FP64
// (serve/engine/tensor_values.h).
//
// Sequences of CSV files are inputs with elements (serve/engine/request_sequence.h). A column that
// features read in different ways is one input all the same, of BYTES where their types differ.
//
// What is missing: NaN, the smallest INT64, an empty BYTES element.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "data/format/decoder.h"
#include "data/format/text/csv_field.h"
#include "serve/engine/request_sequence.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/tensor.h"

namespace emblem {

// Immutable after construction: may be used concurrently.
class RequestColumns {
 public:
  struct Input {
    std::string name;
    DataType type = DataType::kFp32;
    int64_t width = 0;         // values of a row; -1: any number
    std::vector<int> columns;  // one a value; or those that take them all, of a column of its own
    bool is_own = false;       // from one column of a CSV file
    bool is_sequence = false;
  };

  RequestColumns(const config::DataConfig& data, const FeatureLayout& layout);

  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<ColumnRequest>& requests() const { return requests_; }
  const std::vector<ColumnSpec>& columns() const { return columns_; }

  // The names of the columns of an input that feeds several: "C1,C2,...".
  std::string column_names(const Input& input) const;
  std::string missing_names(const InferRequest& request) const;

  // The rows of a request. Throws kInvalidArgument when an input is missing, unknown, given twice,
  // or of another type, shape or size than expected.
  int64_t check(const InferRequest& request) const;

  // Empties `piece`, keeping its memory.
  void clear(DecodedPiece& piece) const;
  // Adds the rows of a checked request. Throws kInvalidArgument for text that a CSV file must not
  // hold either, and when a batch would grow beyond 2 GiB of one column.
  void append(const InferRequest& request, int64_t rows, DecodedPiece& piece) const;
  // Call once before the transform.
  void finish(DecodedPiece& piece) const;

 private:
  void append_singles(const Input& input, const InputTensor& tensor, int64_t rows,
                      DecodedPiece& piece) const;
  void append_values(const Input& input, const InputTensor& tensor, int64_t rows, int column,
                     DecodedPiece& piece) const;
  void add_own_input(int column);
  const Input* find(const std::string& tensor) const;
  void check_type(const Input& input, const InputTensor& tensor) const;
  int64_t check_tensor(const Input& input, const InputTensor& tensor) const;

  std::vector<Input> inputs_;
  std::vector<ColumnRequest> requests_;
  MissingTexts missing_;
  std::vector<ColumnSpec> columns_;
};

}  // namespace emblem
