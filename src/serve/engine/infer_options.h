// serve/engine/infer_options.h - what holds for the requests of all models of a server.
#pragma once

#include <chrono>
#include <cstdint>

#include "serve/protocol/memory_budget.h"

namespace emblem {

struct InferOptions {
  // Of the outputs of one request; what would need more is refused before anything is allocated.
  uint64_t max_answer_bytes = uint64_t{1} << 30;
  // Answers are taken from it until they are sent; null: no limit for all of them together.
  MemoryBudget* memory = nullptr;
  // Of models with dynamic batching whose configuration has no target of its own; see
  // BatchOptions::slo_p99.
  std::chrono::microseconds slo_p99{0};
};

}  // namespace emblem
