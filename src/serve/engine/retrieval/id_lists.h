// serve/engine/retrieval/id_lists.h - a list of ids for each row of a request: an input
//
//   NAME INT64 [rows, T], with NAME.lengths [rows]; or [ids] with NAME.offsets [rows + 1].
//
// The smallest INT64 is no id.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/protocol/inference_service.h"
#include "serve/protocol/tensor.h"

namespace emblem {

// Of a row.
inline constexpr int64_t kMostListedIds = 10'000;

// Borrows the request.
class IdLists {
 public:
  IdLists(const InferRequest& request, const char* name);

  // Whether `tensor` is NAME, NAME.lengths or NAME.offsets of these lists.
  static bool has(const char* name, const std::string& tensor);

  bool is_given() const { return values_ != nullptr; }
  // Throws kInvalidArgument where inputs do not fit `rows` or the limit.
  void check(int64_t rows) const;
  // Of checked lists that are given.
  std::vector<int64_t> of_row(int64_t row) const;

 private:
  const InferRequest& request_;
  std::string name_;
  const InputTensor *values_ = nullptr, *lengths_ = nullptr, *offsets_ = nullptr;
};

// An element of an INT32 or INT64 tensor.
int64_t integer_at(const InputTensor& tensor, int64_t at);

}  // namespace emblem
