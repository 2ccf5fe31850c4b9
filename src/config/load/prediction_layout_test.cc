#include "config/load/prediction_layout.h"

#include <gtest/gtest.h>

#include "core/text/text.h"

namespace emblem {
namespace {

// A pipeline may come from a client: a time that grows with the square of this chain would be
// minutes.
TEST(PredictionLayout, AChainOfManyFeaturesIsReadToItsEnd) {
  constexpr int kFeatures = 100'000;
  FeatureLayout layout;
  layout.features.resize(kFeatures);
  for (int i = 0; i < kFeatures; ++i) {
    FeatureSpec& feature = layout.features[static_cast<size_t>(i)];
    feature.name = cat("f", i);
    const bool is_last = i + 2 >= kFeatures;  // two chains: of even and of odd features
    feature.inputs.resize(1);
    feature.inputs[0].source =
        is_last ? FeatureInput::Source::kColumn : FeatureInput::Source::kFeature;
    feature.inputs[0].name = is_last ? "column" : cat("f", i + 2);
  }
  config::ModelConfig model;
  model.add_feature_groups()->add_feature_names("f0");
  const FeatureLayout read = prediction_layout(layout, model);
  for (size_t i = 0; i < read.features.size(); ++i)
    ASSERT_EQ(read.features[i].inputs.empty(), i % 2 == 1) << i;
}

}  // namespace
}  // namespace emblem
