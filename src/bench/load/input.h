// bench/load/input.h - the requests of a load test: from a file in the format of
// perf_analyzer, or random requests that match the model's metadata.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/load/target.h"

namespace emblem {

struct LoadInputOptions {
  std::string input_data;  // file; empty: random
  int64_t batch = 1;
  // Shapes by input, with one row or without the batch dimension; needed for inputs of variable
  // size.
  std::map<std::string, std::vector<int64_t>> shapes;
  int64_t variety = 32;         // distinct random requests
  double alpha = 0;             // exponent of the ids' power law; 0: uniform
  int64_t key_range = 1000000;  // ids are below it
  uint64_t seed = 1;
};

// {"data": [{"IN": [1, 2], "OTHER": {"content": [..], "shape": [..]}, "RAW": {"b64": ".."}}, ...]}:
// each entry is one row (or as many as its shape says); a request has `batch` consecutive entries.
// Throws kInvalidArgument that names the entry and the input.
std::vector<LoadRequest> read_load_requests(const std::string& json, const std::string& source,
                                            const ModelMetadata& model,
                                            const LoadInputOptions& options);

std::vector<LoadRequest> random_load_requests(const ModelMetadata& model,
                                              const LoadInputOptions& options);

// Requests from the file or random ones, as the options say.
std::vector<LoadRequest> make_load_requests(const ModelMetadata& model,
                                            const LoadInputOptions& options);

// "categorical_features:1,26" -> name and shape.
std::pair<std::string, std::vector<int64_t>> parse_shape_option(const std::string& text);

// Rows of a request: the first size of its first input.
int64_t rows_of(const LoadRequest& request);

// What is wrong with the names, types, shapes or sizes of an answer; empty if nothing is.
std::string problem_with(const LoadAnswer& answer, const ModelMetadata& model, int64_t rows);

}  // namespace emblem
