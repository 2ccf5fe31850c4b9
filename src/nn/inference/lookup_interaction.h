// nn/inference/lookup_interaction.h - DLRM's interaction over rows in place: nothing is
// gathered first. CUDA builds only.
#pragma once

#include <cstdint>

#include "core/device/context.h"
#include "core/math/half.h"

namespace emblem::cuda {

struct LookupInteraction {
  DType dtype = DType::kF16;               // 16 bits
  const void* first = nullptr;             // [rows, dim], or null
  const void* const* addresses = nullptr;  // [rows, lookups] of vectors of `dim` elements
  int64_t rows = 0, lookups = 0, dim = 0;
  void* out = nullptr;  // [rows, pitch]: the first vector, the products of all pairs, zeros
  int64_t pitch = 0;    // a multiple of 8
  bool early = false;   // it follows one kernel alone, and may start before that one ends
};

// Whether there is a kernel for it: up to 32 vectors, whose dimension is a multiple of 32.
bool can_interact(DType dtype, int64_t vectors, int64_t dim);
// Asynchronous.
void interact(const Context& context, const LookupInteraction& of);

// The vectors of a row side by side, unchanged: `bytes` each, a multiple of 2. They are aligned
// to 16 bytes, and so is `out`.
struct GatherVectors {
  const void* const* addresses = nullptr;  // [rows, lookups]
  int64_t rows = 0, lookups = 0, bytes = 0;
  char* out = nullptr;
};
void gather_vectors(const Context& context, const GatherVectors& of);

}  // namespace emblem::cuda
