#include "config/feature/items.h"

#include <algorithm>
#include <functional>
#include <set>

#include "config/feature/matching.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr const char* kItemSampler = "data_config.negative_sampler";

char one_character(const std::string& text, const char* field) {
  EMBLEM_REQUIRE(text.size() == 1, kItemSampler, ".", field, " is \"", printable(text),
                 "\", expected one character");
  return text[0];
}

enum class Reads { kNothing, kItems, kOthers };

// Whether what a feature reads has values for sampled items.
class ItemFeatures {
 public:
  ItemFeatures(const ItemSamplerSpec& sampler, const FeatureLayout& layout)
      : sampler_(sampler), layout_(layout) {}

  bool is_of_items(const FeatureSpec& feature) const {
    Reads reads = Reads::kNothing;
    std::string first;
    for (const FeatureInput& input : feature.inputs) {
      const Reads of_input = read_by(input);
      EMBLEM_REQUIRE(reads == Reads::kNothing || of_input == Reads::kNothing || of_input == reads,
                     "feature \"", printable(feature.name), "\" reads \"", printable(first),
                     "\" and \"", printable(input.name), "\", but only one of them is among ",
                     kItemSampler,
                     ".attr_fields; features of an item and its user are not supported with a "
                     "sampler");
      if (of_input == Reads::kNothing) continue;
      reads = of_input;
      first = input.name;
    }
    return reads == Reads::kItems;
  }

 private:
  Reads read_by(const FeatureInput& input) const {
    if (input.source == FeatureInput::Source::kConstant) return Reads::kNothing;
    if (input.source == FeatureInput::Source::kFeature)
      return is_of_items(layout_.find(input.name)) ? Reads::kItems : Reads::kOthers;
    const auto& fields = sampler_.attr_fields;
    return std::find(fields.begin(), fields.end(), input.name) != fields.end() ? Reads::kItems
                                                                               : Reads::kOthers;
  }

  const ItemSamplerSpec& sampler_;
  const FeatureLayout& layout_;
};

}  // namespace

std::optional<ItemSamplerSpec> item_sampler_of(const config::DataConfig& data) {
  if (!data.has_negative_sampler()) return std::nullopt;
  const config::NegativeSampler& sampler = data.negative_sampler();
  ItemSamplerSpec spec;
  spec.input_path = sampler.input_path();
  spec.attr_fields.assign(sampler.attr_fields().begin(), sampler.attr_fields().end());
  spec.attr_delimiter = one_character(sampler.attr_delimiter(), "attr_delimiter");
  if (sampler.has_field_delimiter())
    spec.field_delimiter = one_character(sampler.field_delimiter(), "field_delimiter");
  spec.item_id_field = sampler.item_id_field();
  spec.count = sampler.num_sample();
  EMBLEM_REQUIRE(!spec.input_path.empty(), kItemSampler,
                 " has no input_path; name the file of items to sample from");
  EMBLEM_REQUIRE(spec.count > 0, kItemSampler, ".num_sample is 0, expected at least 1");
  EMBLEM_REQUIRE(std::find(spec.attr_fields.begin(), spec.attr_fields.end(), spec.item_id_field) !=
                     spec.attr_fields.end(),
                 kItemSampler, ".item_id_field is \"", printable(spec.item_id_field),
                 "\", which attr_fields do not name; add it there");
  return spec;
}

std::vector<std::string> files_of(const ItemSamplerSpec& sampler) { return {sampler.input_path}; }

void sample_for_evaluation(config::DataConfig* data) {
  if (data->negative_sampler().num_eval_sample() > 0)
    data->mutable_negative_sampler()->set_num_sample(data->negative_sampler().num_eval_sample());
}

void remove_sampler(config::PipelineConfig* config) {
  if (!config->data_config().has_negative_sampler()) return;
  config->mutable_data_config()->clear_negative_sampler();
  set_in_batch_negative(config->mutable_model_config());
}

int64_t items_in(const FeatureLayout& layout) {
  const int64_t last = std::ssize(layout.sequences) - 1;
  if (last < 0) return -1;
  const size_t first = layout.sequences[static_cast<size_t>(last)].features.front();
  return layout.features[first].settings.in_sequence ? -1 : last;
}

void lay_out_items(const config::DataConfig& data, FeatureLayout& layout) {
  const auto sampler = item_sampler_of(data);
  if (!sampler) return;
  const ItemFeatures items(*sampler, layout);
  const auto batch = std::max<int64_t>(1, data.batch_size());
  // On average; nothing is cut.
  SequenceSpec space{.name = "sampled_items",
                     .max_length = 1 + (sampler->count + batch - 1) / batch};
  bool has_id = false;
  for (size_t i = 0; i < layout.features.size(); ++i) {
    FeatureSpec& feature = layout.features[i];
    if (!items.is_of_items(feature)) continue;
    EMBLEM_REQUIRE(!feature.settings.in_sequence, "feature \"", printable(feature.name),
                   "\" is a sequence of a sampled item (", kItemSampler,
                   ".attr_fields names its column), which is not supported yet; remove it");
    if (feature.is_intermediate) continue;
    feature.sequence = std::ssize(layout.sequences);
    space.features.push_back(i);
    has_id |= feature.kind == FeatureKind::kSparse && feature.column == sampler->item_id_field;
    if (feature.kind != FeatureKind::kDense) continue;
    feature.dense_begin = space.dense_cols;
    space.dense_cols += feature.dense_cols;
  }
  EMBLEM_REQUIRE(has_id, kItemSampler, ".item_id_field is \"", printable(sampler->item_id_field),
                 "\", which no categorical feature reads; add one, so that a batch's own items are "
                 "not sampled as negatives");
  layout.sequences.push_back(std::move(space));
}

FeatureLayout layout_of_rows(FeatureLayout layout) {
  const int64_t items = items_in(layout);
  if (items < 0) return layout;
  for (const size_t at : layout.sequences[static_cast<size_t>(items)].features) {
    FeatureSpec& feature = layout.features[at];
    feature.sequence = -1;
    if (feature.kind != FeatureKind::kDense) continue;
    feature.dense_begin = layout.dense_cols;
    layout.dense_cols += feature.dense_cols;
  }
  layout.sequences.pop_back();
  return layout;
}

FeatureLayout layout_of_items(const FeatureLayout& layout) {
  const int64_t items = items_in(layout);
  std::set<std::string> read;
  const std::function<void(const FeatureSpec&)> add = [&](const FeatureSpec& feature) {
    read.insert(feature.name);
    for (const FeatureInput& input : feature.inputs)
      if (input.source == FeatureInput::Source::kFeature) add(layout.find(input.name));
  };
  for (const FeatureSpec& feature : layout.features)
    if (feature.sequence == items) add(feature);
  FeatureLayout alone = layout_of_rows(layout);
  for (FeatureSpec& feature : alone.features)
    if (!read.contains(feature.name)) feature.inputs.clear();
  alone.labels.clear();
  alone.weight_fields.clear();
  return alone;
}

}  // namespace emblem
