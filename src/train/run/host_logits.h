// train/run/host_logits.h - the logits of all heads of a model in host memory.
#pragma once

#include <vector>

#include "core/memory/host_copy.h"
#include "model/model.h"

namespace emblem {

class HostLogits {
 public:
  // Logits of the last forward, each [rows, logits of the head]; empty for a head that is in
  // training only. Waits for it. Valid until the next call.
  const std::vector<View<const float>>& of(const Context& context, Model& model, int64_t rows) {
    const size_t heads = model.heads().size();
    values_.resize(heads);
    views_.resize(heads);
    for (size_t head = 0; head < heads; ++head) {
      if (model.heads()[head].spec.in_training_only) continue;
      const View<const float> logits = model.logits(head);
      values_[head] = to_host(context, logits);
      views_[head] = {values_[head].data(), rows, logits.cols};
    }
    return views_;
  }

 private:
  std::vector<std::vector<float>> values_;
  std::vector<View<const float>> views_;
};

}  // namespace emblem
