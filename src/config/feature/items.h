// config/feature/items.h - batches with sampled items: of the features of the pipeline, those of
// items have values for the rows of a batch and for the items that a sampler adds to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/feature/features.h"

namespace emblem {

// data_config.negative_sampler.
struct ItemSamplerSpec {
  std::string input_path;                // items: id, weight and attributes
  std::vector<std::string> attr_fields;  // the columns that the attributes are values of
  char attr_delimiter = ':', field_delimiter = '\t';
  std::string item_id_field;  // one of attr_fields: what tells items from another
  int64_t count = 0;          // items that a batch gets
};

// None where no items are sampled. Throws Error for settings that are missing or out of range.
std::optional<ItemSamplerSpec> item_sampler_of(const config::DataConfig& data);
// All that it reads from: what a batch gets depends on their content.
std::vector<std::string> files_of(const ItemSamplerSpec& sampler);
// Batches are those of evaluations from now on.
void sample_for_evaluation(config::DataConfig* data);

// Without the sampler: candidates are then the items of the batch. For models that are served.
void remove_sampler(config::PipelineConfig* config);

// The last of the layout's sequences, whose elements are the items of a batch: first that of each
// row, then the sampled ones. -1: there is none.
int64_t items_in(const FeatureLayout& layout);

// Makes the features that read attr_fields features of items_in(). Throws Error for features that
// read other columns, too.
void lay_out_items(const config::DataConfig& data, FeatureLayout& layout);

// The layout of the rows that are read, before items are sampled: features of items have a value a
// row. Their numbers are behind those of the other features.
FeatureLayout layout_of_rows(FeatureLayout layout);

// The same for the sampled items alone: features that are not theirs read nothing.
FeatureLayout layout_of_items(const FeatureLayout& layout);

}  // namespace emblem
