#include "serve/engine/retrieval/retrieval_request.h"

#include <algorithm>
#include <limits>

#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "serve/engine/request_sequence.h"
#include "serve/engine/tensor_values.h"

namespace emblem {
namespace {

constexpr const char *kExcludeLengths = "exclude.lengths", *kExcludeOffsets = "exclude.offsets";
constexpr int64_t kNoId = std::numeric_limits<int64_t>::min();

// The names between commas.
std::vector<std::string> names_in(const std::string& filter) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin < filter.size();) {
    const size_t end = std::min(filter.find(',', begin), filter.size());
    if (end > begin) names.push_back(filter.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

int64_t integer_at(const InputTensor& tensor, int64_t at) {
  return tensor.type == DataType::kInt32 ? value_at<int32_t>(tensor, at)
                                         : value_at<int64_t>(tensor, at);
}

bool is_top_k(int64_t k) { return k >= 1 && k <= kMostTopK; }

}  // namespace

bool is_retrieval_input(const std::string& name) {
  return name == kUserVector || name == kTopK || name == kExclude || name == kExcludeLengths ||
         name == kExcludeOffsets;
}

RetrievalRequest::RetrievalRequest(const InferRequest& request)
    : request_(request), filter_(names_in(request.filter)) {
  features_.model = request.model;
  for (const InputTensor& tensor : request.inputs) {
    if (is_retrieval_input(tensor.name))
      take(tensor);
    else
      features_.inputs.push_back(tensor);
  }
}

void RetrievalRequest::take(const InputTensor& tensor) {
  const InputTensor*& place = tensor.name == kUserVector       ? user_vector_
                              : tensor.name == kTopK           ? top_k_
                              : tensor.name == kExclude        ? exclude_
                              : tensor.name == kExcludeLengths ? lengths_
                                                               : offsets_;
  EMBLEM_REQUIRE(place == nullptr, "input '", tensor.name, "' is given twice");
  place = &tensor;
}

int64_t RetrievalRequest::check_user_vector(int64_t dim) const {
  const InputTensor& tensor = *user_vector_;
  EMBLEM_REQUIRE(features_.inputs.empty(), "input '", kUserVector,
                 "' takes the place of features, but '", printable(features_.inputs[0].name),
                 "' is given, too; send one of them");
  EMBLEM_REQUIRE(tensor.type == DataType::kFp32, "input '", kUserVector, "' is ",
                 name_of(tensor.type), ", expected FP32");
  EMBLEM_REQUIRE(tensor.shape.size() == 2 && tensor.shape[1] == dim, "input '", kUserVector,
                 "' has shape ", shape_text(tensor.shape), ", expected [-1,", dim, "]");
  check_bytes(tensor);
  EMBLEM_REQUIRE(tensor.shape[0] > 0, "a request needs at least one row");
  return tensor.shape[0];
}

void RetrievalRequest::check(int64_t rows, const IndexSettings& index) const {
  EMBLEM_REQUIRE(top_k_ == nullptr || !request_.top_k, "'", kTopK,
                 "' is given as an input and as a parameter; give one of them");
  EMBLEM_REQUIRE(is_top_k(request_.top_k.value_or(kDefaultTopK)), "parameter ", kTopK,
                 " is not from 1 to ", kMostTopK);
  if (top_k_ != nullptr) {
    EMBLEM_REQUIRE(top_k_->type == DataType::kInt64 || top_k_->type == DataType::kInt32, "input '",
                   kTopK, "' is ", name_of(top_k_->type), ", expected INT64");
    const std::vector<int64_t> expected = {rows, 1};
    EMBLEM_REQUIRE(top_k_->shape == expected, "input '", kTopK, "' has shape ",
                   shape_text(top_k_->shape), ", expected ", shape_text(expected));
    check_bytes(*top_k_);
    for (int64_t row = 0; row < rows; ++row)
      EMBLEM_REQUIRE(is_top_k(integer_at(*top_k_, row)), "input '", kTopK, "' of row ", row,
                     " is not from 1 to ", kMostTopK);
  }
  check_exclude(rows);
  for (const std::string& name : filter_) {
    EMBLEM_REQUIRE(std::ranges::find(index.attributes, name) != index.attributes.end(),
                   "parameter filter names the unknown attribute \"", printable(name), "\"; ",
                   index.attributes.empty() ? std::string("the index has none")
                                            : cat("the index has ", joined(index.attributes)));
  }
}

void RetrievalRequest::check_exclude(int64_t rows) const {
  if (exclude_ == nullptr) {
    EMBLEM_REQUIRE(lengths_ == nullptr && offsets_ == nullptr, "input '",
                   lengths_ != nullptr ? kExcludeLengths : kExcludeOffsets, "' is given without '",
                   kExclude, "'");
    return;
  }
  EMBLEM_REQUIRE(exclude_->type == DataType::kInt64, "input '", kExclude, "' is ",
                 name_of(exclude_->type), ", expected INT64");
  EMBLEM_REQUIRE(exclude_->shape.size() == (offsets_ != nullptr ? 1 : 2), "input '", kExclude,
                 "' has shape ", shape_text(exclude_->shape), ", expected ",
                 offsets_ != nullptr ? "[ids]" : "[rows,ids]");
  const int64_t found = RequestSequence(request_, kExclude).check();
  EMBLEM_REQUIRE(found == rows, "input '", kExclude, "' has ", found, " rows, but the request has ",
                 rows);
  const auto require_most = [&](int64_t ids, int64_t row) {
    EMBLEM_REQUIRE(ids <= kMostExcluded, "input '", kExclude, "' has ", ids, " ids in row ", row,
                   "; at most ", kMostExcluded, " can be excluded");
  };
  for (int64_t row = 0; row < rows && offsets_ != nullptr; ++row)
    require_most(integer_at(*offsets_, row + 1) - integer_at(*offsets_, row), row);
  if (offsets_ == nullptr) require_most(exclude_->shape[1], 0);
}

int64_t RetrievalRequest::top_k(int64_t row) const {
  if (top_k_ != nullptr) return integer_at(*top_k_, row);
  return request_.top_k.value_or(kDefaultTopK);
}

int64_t RetrievalRequest::most_top_k(int64_t rows) const {
  int64_t most = top_k(0);
  for (int64_t row = 1; row < rows && top_k_ != nullptr; ++row) most = std::max(most, top_k(row));
  return most;
}

std::vector<int64_t> RetrievalRequest::excluded(int64_t row) const {
  int64_t begin = 0, end = 0;
  if (offsets_ != nullptr) {
    begin = integer_at(*offsets_, row);
    end = integer_at(*offsets_, row + 1);
  } else {
    begin = row * exclude_->shape[1];
    end = begin + (lengths_ != nullptr ? integer_at(*lengths_, row) : exclude_->shape[1]);
  }
  std::vector<int64_t> ids;
  ids.reserve(static_cast<size_t>(end - begin));
  for (int64_t at = begin; at < end; ++at) {
    const auto id = value_at<int64_t>(*exclude_, at);
    if (id != kNoId) ids.push_back(id);
  }
  return ids;
}

}  // namespace emblem
