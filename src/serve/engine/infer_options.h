// serve/engine/infer_options.h - what holds for the requests of all models of a server.
#pragma once

#include <chrono>
#include <cstdint>

namespace emblem {

struct InferOptions {
  // Of the outputs of one request; what would need more is refused before anything is allocated.
  uint64_t max_answer_bytes = uint64_t{1} << 30;
};

}  // namespace emblem
