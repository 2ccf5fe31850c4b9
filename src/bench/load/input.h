// bench/load/input.h - the requests that a load test sends: from a file in the form of
// perf_analyzer, or drawn at random for what the model's metadata says.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/load/target.h"

namespace emblem {

struct LoadInputOptions {
  std::string input_data;  // file; empty: random
  int64_t batch = 1;
  // By input: its shape with one row or without its batch dimension; needed where the model leaves
  // sizes open.
  std::map<std::string, std::vector<int64_t>> shapes;
  int64_t variety = 32;         // different random requests
  double alpha = 0;             // exponent of the ids' power law; 0: uniform
  int64_t key_range = 1000000;  // ids are below it
  uint64_t seed = 1;
};

// {"data": [{"IN": [1, 2], "OTHER": {"content": [..], "shape": [..]}, "RAW": {"b64": ".."}}, ...]}:
// each entry is one row (or as many as its shape says); a request takes `batch` of them in turn.
// Throws kInvalidArgument that names the entry and the input.
std::vector<LoadRequest> read_load_requests(const std::string& json, const std::string& source,
                                            const ModelMetadata& model,
                                            const LoadInputOptions& options);

std::vector<LoadRequest> random_load_requests(const ModelMetadata& model,
                                              const LoadInputOptions& options);

// Of either kind, as the options say.
std::vector<LoadRequest> make_load_requests(const ModelMetadata& model,
                                            const LoadInputOptions& options);

// "categorical_features:1,26" -> name and shape.
std::pair<std::string, std::vector<int64_t>> parse_shape_option(const std::string& text);

// Rows of a request: the first size of its first input.
int64_t rows_of(const LoadRequest& request);

// What is wrong with an answer's names, types, shapes and sizes; empty when nothing is.
std::string problem_with(const LoadAnswer& answer, const ModelMetadata& model, int64_t rows);

}  // namespace emblem
