// data/synth/pipeline_schema.h - the columns that fit a pipeline, and how values of synthetic rows
// are written in them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/feature/heads.h"
#include "config/feature/items.h"

namespace emblem {

// Ids that several columns have in common: an item, and the items of a history.
struct PipelineDomain {
  int64_t values = 2;
  // What is written for id number i: an integer, "v" and an integer, or a word.
  enum class Form { kInteger, kText, kWord } form = Form::kInteger;
  std::vector<std::string> words;
  bool has_histories = false;  // a sequence has ids of it
};

struct PipelineColumn {
  enum class Form {
    kIds,
    kNumbers,
    kMap,        // "id:value", for the ids of another column
    kNestedMap,  // "id^id:value,id:value|..."
    kMask,       // true or false
    kPhrase,     // words with spaces between them
  };

  std::string name;
  Form form = Form::kIds;
  size_t domain = 0;  // kIds, kMap: of the ids; kNestedMap: of the outer ones
  size_t key = 0;     // kMap, kNestedMap: the column whose ids are looked up
  size_t inner_key = 0;
  int64_t sequence = -1;  // values are one per element of this sequence
  std::string sequence_delim;
  std::string separator;  // between the values of a row
  int64_t least_values = 1, most_values = 1;
  bool is_weighted = false;          // kIds: "id:weight"
  bool values_are_integers = false;  // kMap, kNestedMap
  int64_t value_limit = 10;          // kMap, kNestedMap: values are below it
  int64_t values_per_key = 1;        // kMap: numbers in a value
  std::string value_separator = ",";
  // kNumbers: counts, which normalizers take logarithms of; numbers between these boundaries, each
  // interval being as likely; or numbers in [low, high).
  bool are_counts = false;
  bool are_dates = false;  // kNumbers: seconds since 1970
  std::vector<float> boundaries;
  double low = -2, high = 2;
  // The column of the same ids that a history is compared with; -1: none.
  int64_t query = -1;
  // It follows from the id of the row's item (PipelineSchema::items).
  bool is_of_item = false;
};

// The items that a sampler of data_config samples.
struct PipelineItems {
  ItemSamplerSpec sampler;
  bool have_tree = false;          // they are the leaves of data_config.tdm_sampler's tree
  size_t id = 0;                   // the column that tells them from another
  std::optional<size_t> user;      // that of users, where edges are read
  std::vector<size_t> attributes;  // columns of attr_fields
};

struct PipelineLabel {
  std::string name;
  LabelKind kind = LabelKind::kBinary;
  int64_t classes = 2;
  int64_t parent = -1;      // it can only be 1 where this label is
  bool is_learned = false;  // a head learns it; else it is drawn without regard to the features
  int64_t column = -1;      // a feature reads the same column, whose ids it has
};

struct PipelineSchema {
  std::vector<PipelineDomain> domains;
  std::vector<PipelineColumn> columns;
  std::vector<int64_t> sequence_lengths;  // the longest, by sequence
  std::vector<PipelineLabel> labels;      // in the order of FeatureLayout::labels
  std::vector<std::string> weight_fields;
  std::vector<HeadSpec> heads;  // those with metrics
  std::optional<PipelineItems> items;
  std::string delimiter = ",";
};

// Columns of all features; tables of more than 2 rows have a `divisor`th of their rows. `config`
// has passed its checks. Throws Error for features that cannot be fed from columns.
PipelineSchema schema_for(const config::PipelineConfig& config, int64_t divisor);

}  // namespace emblem
