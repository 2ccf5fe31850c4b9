// serve/engine/retrieval/retrieval_request.h - what a request asks of a model with an index,
// besides the features of its users.
//
//   user_vector FP32 [rows, dim]: vectors of users, in place of features
//   top_k INT64 or INT32 [rows, 1], or the request parameter top_k: how many items; default 10
//   exclude, allow (serve/engine/retrieval/id_lists.h): ids of items that are not found, and the
//     only ones that may be
//   request parameter filter: attributes that items must have, all of them: "in_stock,new"
//   request parameter probes: lists of an ivf_flat that are searched
//   request parameter then_rank: top_k items of `candidates` that are found are chosen by another
//     model (serve/repository/ranked_search.h); default 10 times as many
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "retrieval/index.h"
#include "serve/engine/retrieval/id_lists.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/tensor.h"

namespace emblem {

inline constexpr const char* kUserVector = "user_vector";
inline constexpr const char* kTopK = "top_k";
inline constexpr const char *kExclude = "exclude", *kAllow = "allow";

inline constexpr int64_t kDefaultTopK = 10, kMostTopK = 10'000;
inline constexpr int64_t kCandidatesOfTopK = 10;  // for each of top_k, unless the request says

// Whether an input of this name is not one of the tower's features.
bool is_retrieval_input(const std::string& name);

// The names between commas.
std::vector<std::string> names_in(std::string_view filter);

// Borrows the request.
class RetrievalRequest {
 public:
  // Throws kInvalidArgument for an input that is given twice.
  explicit RetrievalRequest(const InferRequest& request);

  // The inputs of the tower, and nothing else of the request.
  const InferRequest& features() const { return features_; }
  const InputTensor* user_vector() const { return user_vector_; }

  // Throws kInvalidArgument for vectors that are not [rows, dim]; returns the rows.
  int64_t check_user_vector(int64_t dim) const;
  // Throws kInvalidArgument where the other inputs and parameters do not fit `rows`, the limits, or
  // the index.
  void check(int64_t rows, const Index& index) const;

  // For a checked request.
  int64_t top_k(int64_t row) const;
  int64_t most_top_k(int64_t rows) const;
  // Whether another model ranks the items; then a search finds all candidates for each row.
  bool is_ranked() const { return !request_.then_rank.empty(); }
  // The most items that a search finds for a row: top_k, or candidates.
  int64_t most_found(int64_t rows) const;
  std::optional<int64_t> probes() const { return request_.probes; }
  const IdLists& exclude() const { return exclude_; }
  const IdLists& allow() const { return allow_; }
  const std::vector<std::string>& filter() const { return filter_; }

 private:
  void take(const InputTensor& tensor);
  void check_top_k(int64_t rows) const;
  void check_candidates(int64_t rows) const;
  void check_probes(const Index& index) const;

  const InferRequest& request_;
  InferRequest features_;
  const InputTensor *user_vector_ = nullptr, *top_k_ = nullptr;
  IdLists exclude_, allow_;
  std::vector<std::string> filter_;
};

}  // namespace emblem
