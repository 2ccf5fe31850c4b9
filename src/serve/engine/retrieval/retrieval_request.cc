#include "serve/engine/retrieval/retrieval_request.h"

#include <algorithm>

#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "serve/engine/retrieval/rank_inputs.h"
#include "serve/engine/tensor_values.h"

namespace emblem {
namespace {

bool is_top_k(int64_t k) { return k >= 1 && k <= kMostTopK; }

}  // namespace

std::vector<std::string> names_in(std::string_view filter) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin < filter.size();) {
    const size_t end = std::min(filter.find(',', begin), filter.size());
    if (end > begin) names.emplace_back(filter.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

bool is_retrieval_input(const std::string& name) {
  return name == kUserVector || name == kTopK || IdLists::has(kExclude, name) ||
         IdLists::has(kAllow, name);
}

RetrievalRequest::RetrievalRequest(const InferRequest& request)
    : request_(request),
      exclude_(request, kExclude),
      allow_(request, kAllow),
      filter_(names_in(request.filter)) {
  features_.model = request.model;
  for (const InputTensor& tensor : request.inputs) {
    if (is_retrieval_input(tensor.name))
      take(tensor);
    else
      features_.inputs.push_back(tensor);
  }
}

void RetrievalRequest::take(const InputTensor& tensor) {
  if (tensor.name != kUserVector && tensor.name != kTopK) return;  // of the lists of ids
  const InputTensor*& place = tensor.name == kUserVector ? user_vector_ : top_k_;
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

void RetrievalRequest::check(int64_t rows, const Index& index) const {
  check_top_k(rows);
  check_candidates(rows);
  check_probes(index);
  exclude_.check(rows);
  allow_.check(rows);
  const std::vector<std::string>& attributes = index.settings().attributes;
  for (const std::string& name : filter_) {
    EMBLEM_REQUIRE(std::ranges::find(attributes, name) != attributes.end(),
                   "parameter filter names the unknown attribute \"", printable(name), "\"; ",
                   attributes.empty() ? std::string("the index has none")
                                      : cat("the index has ", joined(attributes)));
  }
}

void RetrievalRequest::check_top_k(int64_t rows) const {
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
}

void RetrievalRequest::check_candidates(int64_t rows) const {
  if (!is_ranked()) {
    EMBLEM_REQUIRE(!request_.candidates, "parameter candidates needs then_rank");
    EMBLEM_REQUIRE(request_.rank_output.empty(), "parameter rank_output needs then_rank");
    return;
  }
  const int64_t most = most_top_k(rows), searched = most_found(rows);
  EMBLEM_REQUIRE(searched >= most && searched <= kMostTopK, "parameter candidates is ", searched,
                 ", expected ", most, " (top_k) to ", kMostTopK);
  EMBLEM_REQUIRE(rows <= kMostRanked / searched, rows, " rows of ", searched,
                 " candidates are more than the ", kMostRanked,
                 " items that a request may rank; send fewer rows or candidates");
}

void RetrievalRequest::check_probes(const Index& index) const {
  if (!request_.probes) return;
  EMBLEM_REQUIRE(index.settings().kind == IndexKind::kIvfFlat,
                 "parameter probes is for indexes of kind ivf_flat, but this one is ",
                 name_of(index.settings().kind), ", whose searches are exact");
  const int64_t lists = std::max<int64_t>(1, index.lists());
  EMBLEM_REQUIRE(*request_.probes >= 1 && *request_.probes <= lists, "parameter probes is ",
                 *request_.probes, ", expected 1 to ", lists, ", the lists of the index");
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

int64_t RetrievalRequest::most_found(int64_t rows) const {
  const int64_t most = most_top_k(rows);
  if (!is_ranked()) return most;
  return request_.candidates.value_or(std::min(kCandidatesOfTopK * most, kMostTopK));
}

}  // namespace emblem
