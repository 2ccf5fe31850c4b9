// config/feature/items.h - batches with sampled items: of the features of the pipeline, those of
// items have values for the rows of a batch and for the items that a sampler adds to it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/feature/features.h"

namespace emblem {

// One of the samplers of data_config.
struct ItemSamplerSpec {
  enum class Draws {
    kByWeight,   // of the items
    kUniformly,  // among items that users have positive edges to
  };
  std::string name;  // data_config.hard_negative_sampler
  Draws draws = Draws::kByWeight;
  std::string input_path;                // items: id, weight and attributes
  std::string user_input_path;           // users: id and weight; "": edges are not read
  std::string positive_edges;            // kUniformly: user, item and weight
  std::string hard_edges;                // the same, to items that are hard negatives; "": none
  std::vector<std::string> attr_fields;  // the columns that the attributes are values of
  char attr_delimiter = ':', field_delimiter = '\t';
  std::string item_id_field;  // one of attr_fields: what tells items from another
  std::string user_id_field;  // what tells users apart, where edges are read
  int64_t count = 0;          // items that a batch gets
  int64_t hard_count = 0;     // hard negatives that a row gets at most
};

// None where no items are sampled. Throws Error for settings that are missing or out of range.
std::optional<ItemSamplerSpec> item_sampler_of(const config::DataConfig& data);
// All that it reads from.
std::vector<std::string> files_of(const ItemSamplerSpec& sampler);
// Calls `change` with the path of each file that the pipeline's sampler or the correction of its
// scores reads, which becomes what that returns.
void change_item_files(config::PipelineConfig* config,
                       const std::function<std::string(const std::string& path)>& change);
// The paths of these files: what a batch gets depends on their content.
std::vector<std::string> item_files(const config::PipelineConfig& config);
// Batches are those of evaluations from now on.
void sample_for_evaluation(config::DataConfig* data);

// Without the sampler and what else only training and evaluations need: candidates are then the
// items of the batch. For models that are served. Returns whether that is a change.
bool remove_sampler(config::PipelineConfig* config);

// The last of the layout's sequences, whose elements are the items of a batch: first that of each
// row, then the sampled ones. -1: there is none.
int64_t items_in(const FeatureLayout& layout);

// Positions of the features that are in batches and read attr_fields alone. Throws Error for those
// that read other columns, too, and for sequences.
std::vector<size_t> features_of_items(const ItemSamplerSpec& sampler, const FeatureLayout& layout);

// `layout` without labels, in which all but these features, and what they are computed from, read
// nothing.
FeatureLayout layout_of_features(FeatureLayout layout, const std::vector<size_t>& features);

// Makes the features that read attr_fields features of items_in(). Throws Error for features that
// read other columns, too.
void lay_out_items(const config::DataConfig& data, FeatureLayout& layout);

// Fills FeatureLayout::candidates. Throws Error for features that are missing or of other kinds.
void lay_out_candidates(const config::PipelineConfig& config, FeatureLayout& layout);

// The layout of the rows that are read, before items are sampled: features of items have a value a
// row. Their numbers are behind those of the other features.
FeatureLayout layout_of_rows(FeatureLayout layout);

// The same for one feature: others read nothing, but those that it is made of.
FeatureLayout layout_of_feature(const FeatureLayout& layout, const std::string& name);

// The same for the sampled items alone: features that are not theirs read nothing.
FeatureLayout layout_of_items(const FeatureLayout& layout);

}  // namespace emblem
