// data/feature/fg/discrete.h - whether what a lookup or match feature finds is ids or numbers.
#pragma once

#include "data/format/block.h"

namespace emblem {

// Values become rows of a table by their text.
template <class Feature>
bool is_hashed(const Feature& feature) {
  return feature.has_hash_bucket_size() || feature.has_zch() || feature.has_dynamicemb();
}

template <class Feature>
bool has_vocabulary(const Feature& feature) {
  return feature.vocab_list_size() > 0 || !feature.vocab_dict().empty() ||
         !feature.vocab_file().empty();
}

// Whether a feature has need_discrete, or any of the settings that make ids of text.
template <class Feature>
bool is_discrete(const Feature& feature) {
  return feature.need_discrete() || feature.has_num_buckets() || is_hashed(feature) ||
         has_vocabulary(feature) || feature.fg_value_type() == "string";
}

template <class Feature>
ColumnType output_of_ids(const Feature& feature) {
  return feature.has_num_buckets() ? ColumnType::kInt64 : ColumnType::kText;
}

}  // namespace emblem
