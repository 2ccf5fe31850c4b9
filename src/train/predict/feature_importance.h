// train/predict/feature_importance.h - what variational dropout has learned about the features of a
// group.
#pragma once

#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"
#include "core/device/context.h"
#include "nn/graph.h"

namespace emblem {

// The probability with which a feature is dropped: near 0 the model needs it, near 1 it does not.
struct FeatureImportance {
  std::string group, feature;
  double drop = 0.0;
};

// Features of every group with variational dropout, those that are needed most first. Empty
// without variational_dropout.
std::vector<FeatureImportance> feature_importance(const Context& context,
                                                  const config::ModelConfig& model, Graph& graph);

// "variational dropout of group deep, p by feature: user 0.02, hour 0.71", a line for each group.
std::vector<std::string> to_lines(const std::vector<FeatureImportance>& features);

}  // namespace emblem
