#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/feature/fg/operator.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

FeatureSpec feature(const std::string& name, const std::vector<std::string>& read_features) {
  FeatureSpec spec;
  spec.name = name;
  spec.inputs.push_back({FeatureInput::Source::kColumn, "column"});
  for (const std::string& other : read_features)
    spec.inputs.push_back({FeatureInput::Source::kFeature, other});
  return spec;
}

std::string error_of(const std::vector<FeatureSpec>& features) {
  try {
    order_of_features(features);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(FeatureOrder, FeaturesComeAfterThoseThatTheyRead) {
  EXPECT_THAT(order_of_features(std::vector{feature("a", {"c", "b"}), feature("b", {"c"}),
                                            feature("c", {}), feature("d", {"a"})}),
              ElementsAre(2, 1, 0, 3));
}

TEST(FeatureOrder, PathsMayBeLong) {
  std::vector<FeatureSpec> chain;
  for (int i = 0; i < 100000; ++i)
    chain.push_back(feature(cat("f", i), {cat("f", std::min(i + 1, 99999))}));
  chain.back().inputs.clear();
  EXPECT_EQ(order_of_features(chain).front(), 99999u);
}

TEST(FeatureOrder, FeaturesThatReadColumnsKeepTheirOrder) {
  EXPECT_THAT(order_of_features(std::vector{feature("a", {}), feature("b", {})}),
              ElementsAre(0, 1));
}

TEST(FeatureOrder, ACycleIsNamed) {
  EXPECT_THAT(error_of({feature("start", {"a"}), feature("a", {"b"}), feature("b", {"c"}),
                        feature("c", {"a"})}),
              HasSubstr("a -> b -> c -> a"));
  EXPECT_THAT(error_of({feature("x", {"x"})}), HasSubstr("x -> x"));
  std::vector<FeatureSpec> ring;
  for (int i = 0; i < 500; ++i) ring.push_back(feature(cat("f", i), {cat("f", (i + 1) % 500)}));
  EXPECT_THAT(error_of(ring), testing::AllOf(HasSubstr("f0 -> f1 -> "), HasSubstr("more) -> f0")));
  EXPECT_LT(error_of(ring).size(), 300u);
}

TEST(FeatureOrder, AFeatureThatDoesNotExistIsNamedWithTheNearest) {
  EXPECT_THAT(error_of({feature("price", {}), feature("b", {"pricee"})}),
              testing::AllOf(HasSubstr("\"b\" reads the feature \"pricee\""),
                             HasSubstr("did you mean \"price\"?")));
}

}  // namespace
}  // namespace emblem
