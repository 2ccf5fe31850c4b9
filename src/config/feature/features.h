// config/feature/features.h - the features of a pipeline in the order in which a Batch holds them.
// data/ fills batches by this layout and model/ reads them by it.
#pragma once

#include <string>
#include <vector>

#include "config/check/semantics.h"
#include "config/feature/feature_settings.h"
#include "config/proto/pipeline.pb.h"

namespace emblem {

enum class FeatureKind { kDense, kSparse };

// What a feature reads.
struct FeatureInput {
  enum class Source { kColumn, kFeature, kConstant };
  Source source = Source::kColumn;
  std::string name;  // name of the column or feature, or the constant itself
  bool is_sequence = false;
};

struct FeatureSpec {
  std::string name;                  // name of a feature of a sequence_feature: SEQUENCE__NAME
  std::string column;                // the first column it reads
  std::vector<FeatureInput> inputs;  // in the order of the fields of its message
  FeatureKind kind = FeatureKind::kDense;
  // -1: a value per row. Else a value per element of this one of FeatureLayout::sequences.
  int64_t sequence = -1;
  // For a feature of a sequence: what divides the text of a row into elements. That of the
  // sequence_feature, or of the feature itself where it stands alone.
  std::string sequence_delim;
  // kDense: columns [dense_begin, dense_begin + dense_cols) of Batch::dense, or of the numbers of
  // the sequence.
  int64_t dense_begin = 0;
  int64_t dense_cols = 0;
  int64_t sparse_index = 0;      // kSparse: position in Batch::sparse
  bool is_intermediate = false;  // other features read it; it is not in batches (stub_type)
  // kSparse: values are 0 ... rows - 1. 0: any 64-bit key (dynamicemb).
  int64_t rows = 0;
  // train_config.divide_tables; keys are taken modulo table_rows(spec).
  int64_t table_divisor = 1;
  // As in the pipeline; features of sequences without their sequence: id_feature for
  // sequence_id_feature.
  config::FeatureConfig config;
  FeatureSettings settings;  // settings of `config`
};

// Features with equally many elements in a row.
struct SequenceSpec {
  std::string name;              // name of the sequence_feature, or of its first feature
  std::vector<size_t> features;  // positions in FeatureLayout::features; the first has the lengths
  int64_t dense_cols = 0;        // width of SequenceColumn::numbers
  int64_t max_length = 0;        // longer ones are cut; 0: no limit
};

// What candidates of a matching model have besides features (config/feature/items.h).
struct CandidateSpec {
  // The categorical features that tell items and users apart; "": that does not matter.
  std::string item_id, user_id;
  bool are_all_items = false;       // the items of all rows of a batch, not the sampled ones alone
  bool are_of_single_rows = false;  // some are: Batch::candidate_of
  bool have_frequency = false;      // how often items are candidates: Batch::candidate_logs
  std::string frequency_path;       // of items of rows; "": as often as they are sampled
};

enum class LabelKind { kBinary, kClass, kNumber };

struct LabelSpec {
  std::string name;  // name of its column
  LabelKind kind = LabelKind::kBinary;
  int64_t classes = 2;  // kClass: labels are 0 ... classes - 1
  // For a model with several labels: a row without this one does not count for the tasks that learn
  // it.
  bool may_be_missing = false;
  // kClass: the text of each class (data_config.label_classes); empty: labels are its numbers.
  std::vector<std::string> values = {};
};

struct FeatureLayout {
  std::vector<FeatureSpec> features;       // in configuration order
  int64_t dense_cols = 0;                  // width of Batch::dense
  int64_t sparse_count = 0;                // entries of Batch::sparse
  std::vector<SequenceSpec> sequences;     // entries of Batch::sequences
  std::vector<LabelSpec> labels;           // columns of Batch::labels
  std::vector<std::string> weight_fields;  // columns of Batch::sample_weights
  CandidateSpec candidates;                // what batches have for matching models
  Semantics semantics;                     // how columns become features

  // Throws with the nearest name when there is no such feature.
  const FeatureSpec& find(const std::string& name) const;
};

// Checks each feature on its own (names unique and fit for files; one way in which values become
// rows; dims, poolings and types valid) and lays them out. `config` has its runs expanded.
FeatureLayout layout_of(const config::PipelineConfig& config);

// The table that a feature with an embedding reads in DEEP groups; in WIDE groups it is NAME_wide.
std::string table_name_of(const config::FeatureConfig& feature);

// 0 when the feature has none.
int64_t embedding_dim_of(const config::FeatureConfig& feature);

// Rows of the feature's table, after divide_tables; 0: the table is dynamic.
int64_t table_rows(const FeatureSpec& feature);

}  // namespace emblem
