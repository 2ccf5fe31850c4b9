// config/feature/feature_settings.h - the settings that the messages of features share, read in one
// way whatever the kind of the feature.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"

namespace emblem {

enum class FeatureType {
  kId,
  kRaw,
  kCombo,
  kLookup,
  kMatch,
  kExpr,
  kOverlap,
  kTokenize,
  kCustom,
  kKvDotProduct,
  kBoolMask,
  kCombine,
};

// Settings that a message does not have are as if unset. Optional ones are empty when unset; all
// others have their default.
struct FeatureSettings {
  FeatureType type = FeatureType::kId;
  bool in_sequence = false;  // sequence_id_feature and the like
  std::string name;
  // What it reads, like "user:age", in the order of the fields of its message: expression; map and
  // key; nested_map, pkey and skey; variables; query and title; query and document.
  std::vector<std::string> expressions;

  // ---- how values become rows: at most one of the first seven is set ----
  std::optional<uint64_t> hash_bucket_size;
  std::optional<uint64_t> num_buckets;
  std::vector<std::string> vocab_list;
  std::map<std::string, uint64_t> vocab_dict;
  std::string vocab_file;  // with its asset_dir
  std::optional<config::ZeroCollisionHash> zch;
  std::optional<config::DynamicEmbedding> dynamicemb;
  std::vector<float> boundaries;
  std::optional<uint64_t> default_bucketize_value;

  // ---- values ----
  std::optional<uint32_t> value_dim;  // set by the user; see value_dim_of
  std::string default_value;
  std::optional<std::string> fg_encoded_default_value;
  std::string separator = "\x1d";
  std::string normalizer;
  std::vector<std::string> na_strings;
  config::NumberFormat number_format = config::PLAIN;
  config::DatePart date_part = config::NO_DATE;
  bool day_first = false;
  std::vector<float> piecewise_linear;  // edges of bins
  std::string combiner = "sum";
  bool weighted = false;
  bool use_mask = false;
  bool stub_type = false;
  bool need_discrete = false;
  bool tokens_as_sequence = false;

  // ---- the embedding ----
  std::optional<std::string> embedding_name;  // see table_name_of
  int64_t embedding_dim = 0;                  // 0: none
  bool has_embedding_dim = false;             // it is written, even if it is 0
  std::string pooling = "sum";
  std::string init_fn;
  bool trainable = true;
  std::string data_type = "FP32";
  std::optional<config::AutoDisEmbedding> autodis;
  bool mlp = false;  // mlp {} is given

  // ---- sequences ----
  int64_t sequence_length = 0;  // 0: no limit
  std::string sequence_delim = ";";
  std::vector<std::string> sequence_fields;
};

// Throws Error for a feature that is not set, and for a sequence_feature, which is several.
FeatureSettings settings_of(const config::FeatureConfig& feature);

// The message of a feature: IdFeature, RawFeature, ...
const google::protobuf::Message& message_of(const config::FeatureConfig& feature);
google::protobuf::Message* mutable_message_of(config::FeatureConfig* feature);

// "hash_bucket_size", "num_buckets", ...: the settings that say how values become rows; empty for a
// feature whose values stay numbers.
std::vector<std::string> row_settings(const FeatureSettings& settings);

// Whether the feature is categorical.
bool is_sparse(const FeatureSettings& settings);

// Values kept of each row, or of each element of a sequence; 0: all of them. Of numbers, how many
// there are.
int64_t value_dim_of(const FeatureSettings& settings, bool in_sequence);

// Numbers of each row, or of each element, in a batch: those of piecewise_linear, else value_dim_of.
int64_t number_cols(const FeatureSettings& settings, bool in_sequence);

// Words and their rows, for vocab_list, vocab_dict and vocab_file, and the row of the other words.
struct Vocabulary {
  std::map<std::string, uint64_t> rows_of_words;
  uint64_t row_of_others = 1;
  uint64_t rows = 0;
};

// `settings` has one of the three. Without default_bucketize_value row 0 is default_value and row 1
// any other word. Reads vocab_file.
Vocabulary vocabulary_of(const FeatureSettings& settings, bool in_sequence);

// Rows of the table: values become 0 ... rows - 1. 0: the table is dynamic or the feature is
// numeric. Reads the tokenizer of a tokenize_feature.
int64_t rows_of(const FeatureSettings& settings, bool in_sequence);

}  // namespace emblem
