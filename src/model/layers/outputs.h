// model/layers/outputs.h - what logits mean; the one place, so that predictions and served answers
// are equal.
#pragma once

#include "config/feature/heads.h"
#include "core/memory/view.h"
#include "model/layers/probability.h"

namespace emblem {

// The output of each row for the logits of its head, which has `classes` of them in a domain. Fills
// to[logits.rows * output.cols]; all in host memory.
void compute_output(const OutputSpec& output, int64_t classes, View<const float> logits, float* to);

}  // namespace emblem
