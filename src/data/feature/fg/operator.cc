#include "data/feature/fg/operator.h"

#include "data/feature/fg/cell_operator.h"
#include "emblem/error.h"

namespace emblem {

std::unique_ptr<FgOperator> make_operator(const FeatureSpec& feature) {
  using Config = config::FeatureConfig;
  switch (feature.config.feature_case()) {
    case Config::kComboFeature:
      return make_combo(feature);
    case Config::kLookupFeature:
      return make_lookup(feature);
    case Config::kMatchFeature:
      return make_match(feature);
    case Config::kExprFeature:
      return make_expr(feature);
    case Config::kOverlapFeature:
      return make_overlap(feature);
    case Config::kTokenizeFeature:
      return make_tokenize(feature);
    case Config::kKvDotProduct:
      return make_kv_dot_product(feature);
    case Config::kBoolMaskFeature:
      return make_bool_mask(feature);
    case Config::kCombineFeature:
      return make_combine(feature);
    case Config::kCustomFeature:
      throw Error(ErrorCode::kUnsupported,
                  cat("feature \"", feature.name, "\": custom_feature runs the operator \"",
                      feature.config.custom_feature().operator_name(),
                      "\" of a shared library, which is not supported; compute its values before "
                      "training and read them with a raw_feature or id_feature"));
    default:
      return nullptr;
  }
}

}  // namespace emblem
