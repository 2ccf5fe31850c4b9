// serve/engine/retrieval/rank_inputs.h - the inputs of a model that ranks the items found for
// users: the inputs of the users, each row repeated for each of its items, and the columns that are
// stored with the items.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/engine/retrieval/stored_columns.h"
#include "serve/engine/servable.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/memory_budget.h"

namespace emblem {

// Items of all users of a request that are ranked.
inline constexpr int64_t kMostRanked = 100'000;

// An item found for a user.
struct FoundItem {
  int64_t user = 0;        // row of the request
  std::string_view texts;  // its columns: StoredColumns::find
};

// Borrows the request and the columns.
class RankInputs {
 public:
  // What `model` reads of a request of users; columns that are stored come from there. Throws
  // kInvalidArgument for an input of the request that is stored, where the request does not have,
  // in the right form, what else the model reads, and for an output without one value for each row.
  RankInputs(const InferRequest& request, const Servable& model, const std::string& output,
             const StoredColumns& columns);

  // Whether the model reads this input of the request.
  bool reads(const std::string& input) const;
  // Throws kInvalidArgument unless the users are those of a request of `rows`.
  void check_rows(int64_t rows) const;

  // Sets inputs of `request`, with a row for each item, and its memory, which is taken from
  // `budget` (null: none) before.
  void fill(InferRequest& request, std::span<const FoundItem> items, MemoryBudget* budget) const;

 private:
  void take_inputs(const InferRequest& request, const Servable& model);
  void check(const InferRequest& request, const Servable& model, const std::string& output);

  const StoredColumns& columns_;
  InferRequest users_;              // the inputs of the request that the model reads
  int64_t rows_ = 0;                // of them; 0: there are none
  std::vector<size_t> of_columns_;  // stored columns that the model reads
};

// The name of the output that a model ranks by: `asked`, or its only one. Throws kInvalidArgument
// for a model with several.
std::string rank_output_of(const Servable& model, const std::string& asked);

}  // namespace emblem
