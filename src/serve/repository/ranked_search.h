// serve/repository/ranked_search.h - a request that searches an index and has another model rank
// the items that are found (parameter then_rank): the same answer as from a search, a request to
// the ranking model with the items, and sorting by its scores.
//
//   then_rank: the ranking model; rank_output: which of its outputs, where it has several
//   candidates: how many items are found and ranked for each row; top_k of them are answered
//
// Inputs of the ranking model are columns that are stored with the items of the index, or else
// inputs of the request. All items of a request are ranked by one version.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "serve/engine/retrieval/rank_inputs.h"
#include "serve/engine/retrieval/stored_columns.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/memory_budget.h"
#include "serve/repository/model_version.h"

namespace emblem {

// Goes from thread to thread with the request; held by what is under way for it.
class RankedSearch : public std::enable_shared_from_this<RankedSearch> {
 public:
  // The newest version of a model. Throws kNotFound, kUnavailable.
  using FindModel = std::function<std::shared_ptr<ModelVersion>(const std::string& model)>;

  // `done` gets the answer. `memory` (null: none): what is allocated on the way is taken from it.
  RankedSearch(const InferRequest& request, FindModel find, MemoryBudget* memory, InferDone done);

  // The request that searches `index`; what it finds goes to rank(). Throws where the index or the
  // ranking model cannot answer the request.
  std::unique_ptr<InferRequest> search_with(const ModelVersion& index);
  // Ranks what was found, and calls `done`.
  void rank(InferResult found) noexcept;

 private:
  // Items that are ranked together.
  struct Ranking;

  void prepare(std::shared_ptr<ModelVersion> model);
  void read(InferResponse found);
  bool submit();
  std::unique_ptr<InferRequest> rank_request(std::span<const FoundItem> items) const;
  void finish(const Ranking& ranking) noexcept;
  [[noreturn]] void fail_ranking(const Error& error) const;

  const InferRequest request_;
  const FindModel find_;
  MemoryBudget* const memory_;
  const InferDone done_;
  std::vector<std::string> outputs_;
  std::shared_ptr<const StoredColumns> columns_;
  // The version that ranks, and what it reads; it is let go once it has all items.
  std::shared_ptr<ModelVersion> model_;
  std::optional<RankInputs> inputs_;
  std::string output_;
  // What was found: [rows, width] ids and scores, of which counts are items; all of them in order.
  InferResponse found_;
  MemoryBudget::Lease lease_;  // of what follows
  std::vector<int64_t> ids_, counts_;
  std::vector<float> scores_;
  int64_t width_ = 0;
  std::vector<FoundItem> items_;
};

}  // namespace emblem
