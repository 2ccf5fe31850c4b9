// nn/ops/loss/session_order.h - the rows of a batch in the order of their sessions, on a GPU.
#pragma once

#include "core/memory/buffer.h"
#include "nn/ops/op.h"

namespace emblem {

class SessionOrder {
 public:
  void prepare(int64_t max_rows);
  // Rows of one session stay in the order of the batch. On the stream of the pass.
  void sort(const OpContext& pass, const int64_t* sessions);

  const int32_t* rows() const { return order_.data(); }
  const int64_t* sessions() const { return sorted_.data(); }

 private:
  Buffer<int32_t> order_, numbers_;  // numbers: 0, 1, ...
  Buffer<int64_t> sorted_;
  Buffer<char> memory_;
};

}  // namespace emblem
