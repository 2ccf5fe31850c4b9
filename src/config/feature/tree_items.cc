#include "config/feature/tree_items.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr const char* kLevelField = "tree_level";

char delimiter_of(const std::string& text, const char* field) {
  EMBLEM_REQUIRE(text.size() == 1, kTreeSampler, ".", field, " is \"", printable(text),
                 "\", expected one character");
  return text[0];
}

TreeSamplerSpec::Remain remain_of(const std::string& type) {
  using Remain = TreeSamplerSpec::Remain;
  if (type == "UNIFORM") return Remain::kUniform;
  if (type == "ARITHMETIC") return Remain::kArithmetic;
  EMBLEM_REQUIRE(type == "RECIPROCAL", kTreeSampler, ".probability_type is \"", printable(type),
                 "\", expected UNIFORM, ARITHMETIC or RECIPROCAL");
  return Remain::kReciprocal;
}

// Attributes begin with level and id, whether attr_fields name them or not.
std::vector<std::string> fields_of(const config::TDMSampler& sampler) {
  std::vector<std::string> fields(sampler.attr_fields().begin(), sampler.attr_fields().end());
  if (fields.empty() || fields[0] != kLevelField) fields.insert(fields.begin(), kLevelField);
  if (fields.size() < 2 || fields[1] != sampler.item_id_field())
    fields.insert(fields.begin() + 1, sampler.item_id_field());
  std::vector<std::string> sorted = fields;
  std::ranges::sort(sorted);
  const auto repeated = std::ranges::adjacent_find(sorted);
  EMBLEM_REQUIRE(repeated == sorted.end(), kTreeSampler, ".attr_fields has \"",
                 printable(*repeated), "\" twice; the level and item_id_field are its first two");
  return fields;
}

void check_samples(const TreeSamplerSpec& spec) {
  EMBLEM_REQUIRE(spec.levels() >= 2, kTreeSampler, ".layer_num_sample has ", spec.levels(),
                 " numbers, expected one for each level of the tree: 0 for the root, and so on");
  EMBLEM_REQUIRE(spec.samples[0] == 0, kTreeSampler, ".layer_num_sample begins with ",
                 spec.samples[0], ", expected 0: the root is alone on its level");
}

}  // namespace

int64_t TreeSamplerSpec::rows_of_row() const {
  const auto inner = static_cast<int64_t>(std::nearbyint(remain_ratio * (levels() - 2)));
  std::vector<int64_t> most(samples.begin(), samples.end() - 1);
  std::ranges::sort(most, std::greater<>());
  return 1 + inner + samples.back() +
         std::accumulate(most.begin(), most.begin() + inner, int64_t{0});
}

std::optional<TreeSamplerSpec> tree_sampler_of(const config::DataConfig& data) {
  if (!data.has_tdm_sampler()) return std::nullopt;
  const config::TDMSampler& sampler = data.tdm_sampler();
  TreeSamplerSpec spec;
  spec.nodes_path = sampler.item_input_path();
  spec.ancestors_path = sampler.edge_input_path();
  spec.children_path = sampler.predict_edge_input_path();
  spec.item_id_field = sampler.item_id_field();
  EMBLEM_REQUIRE(
      !spec.nodes_path.empty() && !(spec.ancestors_path.empty() && spec.children_path.empty()),
      kTreeSampler,
      " needs item_input_path, and edge_input_path or predict_edge_input_path, the nodes "
      "and edges of a tree; emblem tree writes them");
  EMBLEM_REQUIRE(!spec.item_id_field.empty(), kTreeSampler,
                 " has no item_id_field; name the column with the ids of items");
  spec.attr_fields = fields_of(sampler);
  spec.attr_delimiter = delimiter_of(sampler.attr_delimiter(), "attr_delimiter");
  if (sampler.has_field_delimiter())
    spec.field_delimiter = delimiter_of(sampler.field_delimiter(), "field_delimiter");
  spec.samples.assign(sampler.layer_num_sample().begin(), sampler.layer_num_sample().end());
  check_samples(spec);
  spec.remain_ratio = sampler.remain_ratio();
  EMBLEM_REQUIRE(spec.remain_ratio >= 0 && spec.remain_ratio <= 1, kTreeSampler,
                 ".remain_ratio is ", spec.remain_ratio, ", expected a share from 0 to 1");
  spec.remain = remain_of(sampler.probability_type());
  EMBLEM_REQUIRE(sampler.num_eval_sample() == 0, kTreeSampler, ".num_eval_sample is ",
                 sampler.num_eval_sample(),
                 ", but evaluations sample as layer_num_sample says; remove it");
  return spec;
}

int64_t rows_with_samples(const config::DataConfig& data, int64_t rows) {
  const auto sampler = tree_sampler_of(data);
  if (!sampler) return rows;
  const int64_t of_row = sampler->rows_of_row();
  EMBLEM_REQUIRE(rows <= std::numeric_limits<int32_t>::max() / of_row, "a batch of ", rows,
                 " rows is too large: ", kTreeSampler, " makes ", of_row,
                 " rows of one; use a smaller data_config.batch_size, or smaller layer_num_sample");
  return rows * of_row;
}

ItemSamplerSpec items_of(const TreeSamplerSpec& sampler) {
  return {.name = kTreeSampler,
          .input_path = sampler.nodes_path,
          .attr_fields = sampler.attr_fields,
          .attr_delimiter = sampler.attr_delimiter,
          .field_delimiter = sampler.field_delimiter,
          .item_id_field = sampler.item_id_field};
}

NodeFeatures features_of_nodes(const TreeSamplerSpec& sampler, const FeatureLayout& layout) {
  NodeFeatures features{.places = features_of_items(items_of(sampler), layout)};
  const auto id = std::ranges::find_if(features.places, [&](size_t at) {
    const FeatureSpec& feature = layout.features[at];
    return feature.kind == FeatureKind::kSparse && feature.column == sampler.item_id_field;
  });
  EMBLEM_REQUIRE(id != features.places.end(), kTreeSampler, ".item_id_field is \"",
                 printable(sampler.item_id_field),
                 "\", which no categorical feature of a feature group reads; add one, which tells "
                 "nodes of the tree from another");
  features.id = layout.features[*id].sparse_index;
  return features;
}

}  // namespace emblem
