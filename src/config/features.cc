#include "config/features.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <unordered_set>

#include "config/name.h"
#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// "user:age" reads column age; the side is TorchEasyRec's and has no meaning here.
std::string column_of(const std::string& name, const std::string& expression, config::FgMode mode) {
  if (expression.empty() || mode == config::FG_NONE || mode == config::FG_BUCKETIZE) return name;
  const size_t colon = expression.find(':');
  const std::string column = colon == std::string::npos ? expression : expression.substr(colon + 1);
  EMBLEM_REQUIRE(!column.empty(), "feature \"", name, "\": expression \"", expression,
                 "\" names no column; write it like \"user:age\"");
  const std::string side = colon == std::string::npos ? "" : expression.substr(0, colon);
  EMBLEM_REQUIRE(mode != config::FG_DAG || (side != "feature" && side != "const"), "feature \"",
                 name, "\": expression \"", expression, "\" reads a ",
                 side == "const" ? "constant" : "feature",
                 ", which is not supported; name an input column like \"user:age\"");
  return column;
}

// Names become files and folders of checkpoints.
void check_name(const std::string& name, const std::string& what) {
  const std::string problem = name_problem(name);
  EMBLEM_REQUIRE(problem.empty(), what, " \"", printable(name.substr(0, 80)),
                 name.size() > 80 ? "..." : "", "\" ", problem, "; it names files: use up to ",
                 kLongestName, " letters, digits, \"_\", \"-\" and \".\"");
}

bool is_one_of(std::string_view value, std::initializer_list<std::string_view> choices) {
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

// What both kinds of features have.
template <class Feature>
void check_shared_settings(const Feature& feature) {
  const std::string& name = feature.feature_name();
  EMBLEM_REQUIRE(!feature.has_embedding_dim() || feature.embedding_dim() > 0, "feature \"", name,
                 "\": embedding_dim is 0, expected at least 1");
  EMBLEM_REQUIRE(is_one_of(feature.pooling(), {"sum", "mean"}), "feature \"", name,
                 "\": pooling is \"", feature.pooling(), "\", expected sum or mean");
  EMBLEM_REQUIRE(is_one_of(feature.data_type(), {"FP32", "FP16", "BF16"}), "feature \"", name,
                 "\": data_type is \"", feature.data_type(), "\", expected FP32, FP16 or BF16");
  if (feature.has_embedding_name())
    check_name(feature.embedding_name(), cat("feature \"", printable(name), "\": embedding_name"));
}

void check(const config::IdFeature& feature) {
  const std::string& name = feature.feature_name();
  const int ways =
      feature.has_num_buckets() + feature.has_hash_bucket_size() + feature.has_dynamicemb();
  EMBLEM_REQUIRE(ways > 0, "feature \"", name,
                 "\" does not say how its values become rows; give one of num_buckets, "
                 "hash_bucket_size and dynamicemb");
  EMBLEM_REQUIRE(ways == 1, "feature \"", name, "\" has more than one of",
                 feature.has_num_buckets() ? " num_buckets" : "",
                 feature.has_hash_bucket_size() ? " hash_bucket_size" : "",
                 feature.has_dynamicemb() ? " dynamicemb" : "", "; keep one of them");
  EMBLEM_REQUIRE(!feature.has_num_buckets() || feature.num_buckets() > 0, "feature \"", name,
                 "\": num_buckets is 0, expected at least 1");
  EMBLEM_REQUIRE(!feature.has_hash_bucket_size() || feature.hash_bucket_size() > 0, "feature \"",
                 name, "\": hash_bucket_size is 0, expected at least 1");
  check_shared_settings(feature);
}

void check(const config::RawFeature& feature) {
  const std::string& name = feature.feature_name();
  EMBLEM_REQUIRE(feature.value_dim() > 0, "feature \"", name,
                 "\": value_dim is 0, expected at least 1");
  for (int i = 0; i < feature.boundaries_size(); ++i) {
    EMBLEM_REQUIRE(!std::isnan(feature.boundaries(i)), "feature \"", name, "\": boundaries[", i,
                   "] is NaN");
    EMBLEM_REQUIRE(i == 0 || feature.boundaries(i - 1) < feature.boundaries(i), "feature \"", name,
                   "\": boundaries must rise, but ", feature.boundaries(i), " follows ",
                   feature.boundaries(i - 1));
  }
  check_shared_settings(feature);
}

FeatureSpec spec_of(const config::FeatureConfig& config, int index, config::FgMode mode) {
  FeatureSpec spec;
  spec.config = config;
  std::string expression;
  if (config.has_id_feature()) {
    spec.kind = FeatureKind::kSparse;
    spec.name = config.id_feature().feature_name();
    expression = config.id_feature().expression();
  } else if (config.has_raw_feature()) {
    const config::RawFeature& raw = config.raw_feature();
    spec.kind = raw.boundaries_size() > 0 ? FeatureKind::kSparse : FeatureKind::kDense;
    spec.dense_cols = spec.kind == FeatureKind::kDense ? raw.value_dim() : 0;
    spec.name = raw.feature_name();
    expression = raw.expression();
  } else {
    throw Error(
        ErrorCode::kInvalidArgument,
        cat("feature_configs[", index, "] is empty; give it an id_feature or a raw_feature"));
  }
  EMBLEM_REQUIRE(!spec.name.empty(), "feature_configs[", index, "] has no feature_name");
  check_name(spec.name, "feature_name");
  spec.column = column_of(spec.name, expression, mode);
  if (config.has_id_feature())
    check(config.id_feature());
  else
    check(config.raw_feature());
  return spec;
}

}  // namespace

FeatureLayout layout_of(const config::PipelineConfig& config) {
  FeatureLayout layout;
  layout.semantics = semantics_of(config);
  std::unordered_set<std::string> names;
  for (int i = 0; i < config.feature_configs_size(); ++i) {
    FeatureSpec spec = spec_of(config.feature_configs(i), i, layout.semantics.fg_mode);
    EMBLEM_REQUIRE(names.insert(spec.name).second, "two features are called \"", spec.name,
                   "\"; give one of them another feature_name");
    if (spec.kind == FeatureKind::kDense) {
      spec.dense_begin = layout.dense_cols;
      layout.dense_cols += spec.dense_cols;
    } else {
      spec.sparse_index = layout.sparse_count++;
    }
    layout.features.push_back(std::move(spec));
  }
  return layout;
}

std::string table_name_of(const config::FeatureConfig& feature) {
  const auto name = [](const auto& each) {
    return each.embedding_name().empty() ? each.feature_name() + "_emb" : each.embedding_name();
  };
  return feature.has_id_feature() ? name(feature.id_feature()) : name(feature.raw_feature());
}

int64_t embedding_dim_of(const config::FeatureConfig& feature) {
  return feature.has_id_feature() ? feature.id_feature().embedding_dim()
                                  : feature.raw_feature().embedding_dim();
}

const FeatureSpec& FeatureLayout::find(const std::string& name) const {
  const auto found = std::find_if(features.begin(), features.end(),
                                  [&](const auto& spec) { return spec.name == name; });
  if (found != features.end()) return *found;
  std::vector<std::string> names;
  for (const FeatureSpec& spec : features) names.push_back(spec.name);
  const auto nearest = nearest_name(name, names);
  throw Error(ErrorCode::kInvalidArgument, cat("there is no feature \"", name, "\"",
                                               nearest ? cat("; did you mean \"", *nearest, "\"?")
                                                       : "; feature_configs lists all features"));
}

}  // namespace emblem
