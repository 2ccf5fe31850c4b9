// loss/candidate_rank.h - how a matching model ranks the item of a row among candidates.
#pragma once

#include <cstdint>

namespace emblem {

// A row of what matching models minimize and metrics read (nn/matching.h).
struct CandidateRank {
  float loss = 0.0f;    // -log of the softmax of its own item's score over all candidates
  float better = 0.0f;  // candidates that score higher than its own item
  float equal = 1.0f;   // candidates that score the same, its own item among them
};
inline constexpr int64_t kRankColumns = sizeof(CandidateRank) / sizeof(float);

}  // namespace emblem
