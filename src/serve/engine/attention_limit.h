// serve/engine/attention_limit.h - limits the sequences whose elements a model compares with each
// other, where the pipeline does not: their time is the square of a length that a client chooses.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "data/batch.h"

namespace emblem {

class AttentionLimit {
 public:
  static constexpr int64_t kMostElements = 4096;

  AttentionLimit(const config::ModelConfig& model, const FeatureLayout& layout);

  // Throws kInvalidArgument when a row has more elements.
  void check(const Batch& batch) const;

 private:
  struct Sequence {
    size_t at;  // in Batch::sequences
    std::string name;
  };
  std::vector<Sequence> sequences_;  // without a limit of their own
};

}  // namespace emblem
