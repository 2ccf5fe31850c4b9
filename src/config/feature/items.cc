#include "config/feature/items.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <set>

#include "config/feature/matching.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

char one_character(const std::string& sampler, const std::string& text, const char* field) {
  EMBLEM_REQUIRE(text.size() == 1, sampler, ".", field, " is \"", printable(text),
                 "\", expected one character");
  return text[0];
}

// What all samplers have.
template <class Sampler>
ItemSamplerSpec sampler_spec_of(const Sampler& sampler, const char* name) {
  ItemSamplerSpec spec;
  spec.name = cat("data_config.", name);
  spec.attr_fields.assign(sampler.attr_fields().begin(), sampler.attr_fields().end());
  spec.attr_delimiter = one_character(spec.name, sampler.attr_delimiter(), "attr_delimiter");
  if (sampler.has_field_delimiter())
    spec.field_delimiter = one_character(spec.name, sampler.field_delimiter(), "field_delimiter");
  spec.item_id_field = sampler.item_id_field();
  spec.count = sampler.num_sample();
  EMBLEM_REQUIRE(spec.count > 0, spec.name, ".num_sample is 0, expected at least 1");
  EMBLEM_REQUIRE(std::ranges::find(spec.attr_fields, spec.item_id_field) != spec.attr_fields.end(),
                 spec.name, ".item_id_field is \"", printable(spec.item_id_field),
                 "\", which attr_fields do not name; add it there");
  return spec;
}

std::string file_of(const ItemSamplerSpec& sampler, const std::string& path, const char* field,
                    const char* content) {
  EMBLEM_REQUIRE(!path.empty(), sampler.name, " has no ", field, "; name the file of ", content);
  return path;
}

template <class Sampler>
void read_users(const Sampler& sampler, ItemSamplerSpec& spec) {
  spec.input_path =
      file_of(spec, sampler.item_input_path(), "item_input_path", "items to sample from");
  spec.user_input_path = file_of(spec, sampler.user_input_path(), "user_input_path", "users");
  spec.user_id_field = sampler.user_id_field();
  EMBLEM_REQUIRE(!spec.user_id_field.empty(), spec.name,
                 " has no user_id_field; name the column of users' ids, which edges begin with");
}

template <class Sampler>
void read_positive_edges(const Sampler& sampler, ItemSamplerSpec& spec) {
  spec.draws = ItemSamplerSpec::Draws::kUniformly;
  spec.positive_edges = file_of(spec, sampler.pos_edge_input_path(), "pos_edge_input_path",
                                "edges from users to their items");
}

template <class Sampler>
void read_hard_edges(const Sampler& sampler, ItemSamplerSpec& spec) {
  spec.hard_edges = file_of(spec, sampler.hard_neg_edge_input_path(), "hard_neg_edge_input_path",
                            "edges from users to items that are hard negatives");
  spec.hard_count = sampler.num_hard_sample();
  EMBLEM_REQUIRE(spec.hard_count > 0, spec.name, ".num_hard_sample is 0, expected at least 1");
}

// Calls `body` with the message of the sampler of items; not at all without one.
template <class Body>
void with_sampler(config::DataConfig* data, const Body& body) {
  if (data->has_negative_sampler()) body(*data->mutable_negative_sampler());
  if (data->has_negative_sampler_v2()) body(*data->mutable_negative_sampler_v2());
  if (data->has_hard_negative_sampler()) body(*data->mutable_hard_negative_sampler());
  if (data->has_hard_negative_sampler_v2()) body(*data->mutable_hard_negative_sampler_v2());
}

// The last categorical feature of the layout that reads the column, and is of this sequence.
const FeatureSpec* id_feature(const FeatureLayout& layout, const std::string& column,
                              int64_t sequence) {
  const FeatureSpec* found = nullptr;
  for (const FeatureSpec& feature : layout.features)
    if (feature.kind == FeatureKind::kSparse && !feature.is_intermediate &&
        feature.column == column && feature.sequence == sequence)
      found = &feature;
  return found;
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
                     sampler_.name,
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
  if (data.has_negative_sampler()) {
    const config::NegativeSampler& sampler = data.negative_sampler();
    ItemSamplerSpec spec = sampler_spec_of(sampler, "negative_sampler");
    spec.input_path = file_of(spec, sampler.input_path(), "input_path", "items to sample from");
    return spec;
  }
  if (data.has_negative_sampler_v2()) {
    const config::NegativeSamplerV2& sampler = data.negative_sampler_v2();
    ItemSamplerSpec spec = sampler_spec_of(sampler, "negative_sampler_v2");
    read_users(sampler, spec);
    read_positive_edges(sampler, spec);
    return spec;
  }
  if (data.has_hard_negative_sampler()) {
    const config::HardNegativeSampler& sampler = data.hard_negative_sampler();
    ItemSamplerSpec spec = sampler_spec_of(sampler, "hard_negative_sampler");
    read_users(sampler, spec);
    read_hard_edges(sampler, spec);
    return spec;
  }
  if (data.has_hard_negative_sampler_v2()) {
    const config::HardNegativeSamplerV2& sampler = data.hard_negative_sampler_v2();
    ItemSamplerSpec spec = sampler_spec_of(sampler, "hard_negative_sampler_v2");
    read_users(sampler, spec);
    read_positive_edges(sampler, spec);
    read_hard_edges(sampler, spec);
    return spec;
  }
  return std::nullopt;
}

std::vector<std::string> files_of(const ItemSamplerSpec& sampler) {
  std::vector<std::string> files;
  for (const std::string& path :
       {sampler.input_path, sampler.user_input_path, sampler.positive_edges, sampler.hard_edges})
    if (!path.empty()) files.push_back(path);
  return files;
}

void change_item_files(config::PipelineConfig* config,
                       const std::function<std::string(const std::string& path)>& change) {
  const auto change_paths = [&](google::protobuf::Message& message) {
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      const auto* field = message.GetDescriptor()->field(i);
      const auto* reflection = message.GetReflection();
      if (!field->name().ends_with("input_path") || !reflection->HasField(message, field)) continue;
      reflection->SetString(&message, field, change(reflection->GetString(message, field)));
    }
  };
  config::DataConfig& data = *config->mutable_data_config();
  with_sampler(&data, change_paths);
  if (data.has_tdm_sampler()) change_paths(*data.mutable_tdm_sampler());
  if (auto* correction = logq_correction_of(config->mutable_model_config()))
    change_paths(*correction);
}

std::vector<std::string> item_files(const config::PipelineConfig& config) {
  std::vector<std::string> files;
  config::PipelineConfig copy = config;
  config::DataConfig& data = *copy.mutable_data_config();
  if (data.tdm_sampler().has_predict_edge_input_path())  // which is read in its place
    data.mutable_tdm_sampler()->clear_edge_input_path();
  change_item_files(&copy, [&](const std::string& path) {
    files.push_back(path);
    return path;
  });
  return files;
}

void sample_for_evaluation(config::DataConfig* data) {
  with_sampler(data, [](auto& sampler) {
    if (sampler.num_eval_sample() > 0) sampler.set_num_sample(sampler.num_eval_sample());
  });
}

bool remove_sampler(config::PipelineConfig* config) {
  const bool is_corrected = remove_corrections(config->mutable_model_config());
  if (config->data_config().sampler_case() == config::DataConfig::SAMPLER_NOT_SET)
    return is_corrected;
  config->mutable_data_config()->clear_sampler();
  set_in_batch_negative(config->mutable_model_config());
  return true;
}

int64_t items_in(const FeatureLayout& layout) {
  const int64_t last = std::ssize(layout.sequences) - 1;
  if (last < 0) return -1;
  const size_t first = layout.sequences[static_cast<size_t>(last)].features.front();
  return layout.features[first].settings.in_sequence ? -1 : last;
}

std::vector<size_t> features_of_items(const ItemSamplerSpec& sampler, const FeatureLayout& layout) {
  const ItemFeatures items(sampler, layout);
  std::vector<size_t> found;
  for (size_t i = 0; i < layout.features.size(); ++i) {
    const FeatureSpec& feature = layout.features[i];
    if (!items.is_of_items(feature)) continue;
    EMBLEM_REQUIRE(!feature.settings.in_sequence, "feature \"", printable(feature.name),
                   "\" is a sequence of a sampled item (", sampler.name,
                   ".attr_fields names its column), which is not supported yet; remove it");
    if (!feature.is_intermediate) found.push_back(i);
  }
  return found;
}

void lay_out_items(const config::DataConfig& data, FeatureLayout& layout) {
  const auto sampler = item_sampler_of(data);
  if (!sampler) return;
  const std::vector<size_t> items = features_of_items(*sampler, layout);
  const auto batch = std::max<int64_t>(1, data.batch_size());
  // On average; nothing is cut.
  SequenceSpec space{.name = "sampled_items",
                     .max_length = 1 + (sampler->count + batch - 1) / batch + sampler->hard_count};
  for (const size_t i : items) {
    FeatureSpec& feature = layout.features[i];
    feature.sequence = std::ssize(layout.sequences);
    space.features.push_back(i);
    if (feature.kind != FeatureKind::kDense) continue;
    feature.dense_begin = space.dense_cols;
    space.dense_cols += feature.dense_cols;
  }
  EMBLEM_REQUIRE(
      id_feature(layout, sampler->item_id_field, std::ssize(layout.sequences)) != nullptr,
      sampler->name, ".item_id_field is \"", printable(sampler->item_id_field),
      "\", which no categorical feature reads; add one, so that a batch's own items are "
      "not sampled as negatives");
  layout.sequences.push_back(std::move(space));
}

void lay_out_candidates(const config::PipelineConfig& config, FeatureLayout& layout) {
  CandidateSpec& candidates = layout.candidates;
  const auto sampler = item_sampler_of(config.data_config());
  if (sampler)
    candidates.item_id = id_feature(layout, sampler->item_id_field, items_in(layout))->name;
  if (sampler && !sampler->user_id_field.empty()) {
    const FeatureSpec* user = id_feature(layout, sampler->user_id_field, -1);
    EMBLEM_REQUIRE(user != nullptr, sampler->name, ".user_id_field is \"",
                   printable(sampler->user_id_field),
                   "\", which no categorical feature of rows reads; add one, which tells users "
                   "apart");
    candidates.user_id = user->name;
    candidates.are_of_single_rows = sampler->hard_count > 0;
  }
  const auto model = matching_of(config.model_config());
  if (!model) return;
  const std::string name = matching_name(config.model_config());
  const bool tells_apart = model->masks_equal_items || model->corrects_scores;
  EMBLEM_REQUIRE(tells_apart || model->item_id_feature.empty(), name,
                 ".item_id_feature has no effect without mask_equal_items or logq_correction; "
                 "remove it");
  if (!tells_apart) return;
  if (!model->item_id_feature.empty()) candidates.item_id = model->item_id_feature;
  EMBLEM_REQUIRE(!candidates.item_id.empty(), name, " has no item_id_feature, which ",
                 model->masks_equal_items ? "mask_equal_items" : "logq_correction",
                 " needs without a sampler; name the categorical feature that tells items apart");
  const FeatureSpec& item = layout.find(candidates.item_id);
  EMBLEM_REQUIRE(item.kind == FeatureKind::kSparse && !item.is_intermediate &&
                     item.sequence == items_in(layout),
                 name, ".item_id_feature is \"", printable(candidates.item_id),
                 "\", expected a categorical feature of the item");
  if (!model->corrects_scores) return;
  EMBLEM_REQUIRE(!sampler || sampler->hard_edges.empty(), name,
                 ".logq_correction is of items that are candidates by chance, but ", sampler->name,
                 " chooses hard ones; remove it, or use another sampler");
  EMBLEM_REQUIRE(sampler || !model->frequency_path.empty(), name,
                 ".logq_correction has no input_path; name the file that says how often rows have "
                 "items");
  candidates.have_frequency = true;
  candidates.are_all_items = model->in_batch_negative;
  candidates.frequency_path = model->frequency_path;
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

FeatureLayout layout_of_features(FeatureLayout layout, const std::vector<size_t>& features) {
  std::set<std::string> read;
  const std::function<void(const FeatureSpec&)> add = [&](const FeatureSpec& feature) {
    read.insert(feature.name);
    for (const FeatureInput& input : feature.inputs)
      if (input.source == FeatureInput::Source::kFeature) add(layout.find(input.name));
  };
  for (const size_t at : features) add(layout.features[at]);
  for (FeatureSpec& feature : layout.features)
    if (!read.contains(feature.name)) feature.inputs.clear();
  layout.labels.clear();
  layout.weight_fields.clear();
  return layout;
}

FeatureLayout layout_of_feature(const FeatureLayout& layout, const std::string& name) {
  const auto at = static_cast<size_t>(&layout.find(name) - layout.features.data());
  return layout_of_features(layout_of_rows(layout), {at});
}

FeatureLayout layout_of_items(const FeatureLayout& layout) {
  const auto items = static_cast<size_t>(items_in(layout));
  return layout_of_features(layout_of_rows(layout), layout.sequences[items].features);
}

}  // namespace emblem
