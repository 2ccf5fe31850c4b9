// loss/from_config.h - the losses of a pipeline.
#pragma once

#include <optional>
#include <string>

#include "loss/loss.pb.h"
#include "loss/losses.h"

namespace emblem {

// Throws Error for a loss that is empty.
AnyLoss loss_from(const config::LossConfig& loss);

std::string loss_name(const config::LossConfig& loss);  // "binary_cross_entropy"; "": none is set

// That of binary_cross_entropy when none is set.
HeadKind kind_of_head(const config::LossConfig& loss);

// The feature whose rows the loss compares; none: it compares no rows.
std::optional<std::string> session_of(const config::LossConfig& loss);

// How labels are scaled for the model to learn them: (label - mean) / deviation.
struct LabelScale {
  float mean = 0.0f, deviation = 1.0f;
};
LabelScale label_scale_of(const config::LossConfig& loss);

}  // namespace emblem
