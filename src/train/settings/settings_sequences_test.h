// train/settings/settings_sequences_test.h - features of sequences of every kind, for
// settings_bases_test.h.
#pragma once

namespace emblem {

// FOLDER is that of the test.
inline constexpr char kSettingsTokens[] =
    R"({"model": {"type": "BPE", "vocab": {"r": 0, "e": 1, "d": 2, "s": 3, "h": 4, "re": 5}, "merges": ["r e"]}})";

inline constexpr char kSequenceFeatures[] = R"text(
  feature_configs { sequence_feature { sequence_name: "s" sequence_length: 3 sequence_delim: ";"
    features { id_feature { feature_name: "color" vocab_list: ["red", "green", "blue"] embedding_dim: 4 } }
    features { raw_feature { feature_name: "price" boundaries: [1, 5, 50] embedding_dim: 4 } }
    features { combo_feature { feature_name: "combo" expression: "user:user" expression: "item:brand"
      hash_bucket_size: 50 embedding_dim: 4 } }
    features { lookup_feature { feature_name: "lookup" map: "user:by_brand" key: "item:brand" } }
    features { match_feature { feature_name: "match" nested_map: "user:nested" pkey: "item:brand"
      skey: "item:shop" num_buckets: 5 embedding_dim: 4 } }
    features { expr_feature { feature_name: "expr" expression: "a + b" variables: "user:a" variables: "item:b" } }
    features { overlap_feature { feature_name: "overlap" query: "user:query" title: "item:title"
      method: "query_common_ratio" separator: " " } }
    features { tokenize_feature { feature_name: "text" expression: "item:text"
      vocab_file: "FOLDER/tokens.json" embedding_dim: 4 } }
    features { kv_dot_product { feature_name: "dot" query: "user:likes" document: "item:has" separator: "|" } }
    features { bool_mask_feature { feature_name: "mask" expression: "item:ids" expression: "item:valid"
      separator: "," num_buckets: 30 embedding_dim: 4 } }
    features { combine_feature { feature_name: "combine" expression: "item:event" num_buckets: 10
      embedding_dim: 4 value_map { key: "click" value: 1 } value_map { key: "buy" value: 2 } } } } }
  feature_configs { tokenize_feature { feature_name: "title" expression: "item:name"
    vocab_file: "FOLDER/tokens.json" embedding_dim: 4 text_normalizer { max_length: 100 norm_options: TEXT_FILTER } } }
  model_config {
    feature_groups { group_name: "all" feature_names: ["user", "color", "item", "count", "price", "title"]
      sequence_groups { group_name: "clicks" feature_names: ["user", "clicks__user"] }
      sequence_groups { group_name: "s" feature_names: ["color", "s__color", "s__price", "s__combo",
        "s__lookup", "s__match", "s__expr", "s__overlap", "s__text", "s__dot", "s__mask", "s__combine"] }
      sequence_encoders { multi_window_din_encoder { name: "a" input: "clicks" attn_mlp { hidden_units: 4 }
        windows_len: [1, 2] } }
      sequence_encoders { din_encoder { input: "s" attn_mlp { hidden_units: 4 } } } }
    multi_tower { towers { input: "all" mlp { hidden_units: 4 } } final { hidden_units: 4 } }
    losses { binary_cross_entropy {} } metrics { auc {} } })text";

// The same kinds, each a sequence of its own.
inline constexpr char kLoneSequences[] = R"text(
  feature_configs { sequence_raw_feature { feature_name: "prices" sequence_length: 3 sequence_delim: ";"
    boundaries: [1, 5, 50] embedding_dim: 4 } }
  feature_configs { sequence_combo_feature { feature_name: "combo" expression: "user:user" expression: "item:brand"
      sequence_length: 3 sequence_delim: ";" hash_bucket_size: 50 embedding_dim: 4 } }
  feature_configs { sequence_lookup_feature { feature_name: "lookup" map: "user:by_brand" key: "item:brand"
      sequence_length: 3 sequence_delim: ";" } }
  feature_configs { sequence_match_feature { feature_name: "match" nested_map: "user:nested" pkey: "item:brand"
      sequence_length: 3 sequence_delim: ";" skey: "item:shop" num_buckets: 5 embedding_dim: 4 } }
  feature_configs { sequence_expr_feature { feature_name: "expr" expression: "a + b" variables: "user:a"
      variables: "item:b" sequence_length: 3 sequence_delim: ";" } }
  feature_configs { sequence_overlap_feature { feature_name: "overlap" query: "user:query" title: "item:title"
      method: "query_common_ratio" separator: " " sequence_length: 3 sequence_delim: ";" } }
  feature_configs { sequence_tokenize_feature { feature_name: "text" expression: "item:text"
      sequence_length: 3 sequence_delim: ";" vocab_file: "tokens.json" asset_dir: "FOLDER" embedding_dim: 4 } }
  feature_configs { sequence_kv_dot_product { feature_name: "dot" query: "user:likes" document: "item:has"
      separator: "|" sequence_length: 3 sequence_delim: ";" } }
  feature_configs { sequence_bool_mask_feature { feature_name: "mask" expression: "item:ids"
      expression: "item:valid" separator: "," num_buckets: 30 embedding_dim: 4 sequence_length: 3 sequence_delim: ";" } }
  feature_configs { sequence_combine_feature { feature_name: "combine" expression: "item:event" num_buckets: 10
      sequence_length: 3 sequence_delim: ";" embedding_dim: 4
      value_map { key: "click" value: 1 } value_map { key: "buy" value: 2 } } }
  model_config {
    feature_groups { group_name: "all" feature_names: ["user", "color", "item", "count", "price"]
      sequence_groups { group_name: "s" feature_names: ["color", "prices", "combo",
        "lookup", "match", "expr", "overlap", "text", "dot", "mask", "combine"] }
      sequence_encoders { din_encoder { input: "s" attn_mlp { hidden_units: 4 } } } }
    multi_tower { towers { input: "all" mlp { hidden_units: 4 } } final { hidden_units: 4 } }
    losses { binary_cross_entropy {} } metrics { auc {} } })text";

}  // namespace emblem
