// model/lookup/lookup_groups.h - which rows of which tables a model looks up, and which nodes take
// them.
//
// Tables are in three collections that share nothing: those of DEEP groups, of WIDE groups, and of
// sequences (the queries and sequences of SEQUENCE groups and nested sequence_groups). Equal names
// within a collection are one table. A key's row is updated once in a step, with the sum of its
// gradients, so all features that read a table are in one lookup: features of the batch's rows in
// one, features of a sequence's elements in another, and features of both, where they share a
// table, in a stacked one.
#pragma once

#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "nn/graph.h"

namespace emblem {

// The collections. Names of their tables: NAME, NAME_wide, NAME_seq; wide tables start at 0.
enum class TableFamily { kDeep, kWide, kSequence };

// One feature of a lookup: which keys of a Batch, and the columns that take its vector.
struct GroupedFeature {
  const FeatureSpec* feature = nullptr;
  std::string suffix;  // embedding_name_suffix of the group that names it
  std::string table;
  int64_t dim = 0;
  Node node;
  int64_t begin = 0;  // first column in the node
};

struct LookupGroup {
  TableFamily family = TableFamily::kDeep;
  // A lookup of features with equally many bags: those of the rows of the batch (-1) or of the
  // elements of this one of FeatureLayout::sequences. All features are columns of one node.
  int64_t sequence = -1;
  // Or of one table, whose features have their bags one after the other and a node each.
  bool is_stacked = false;
  std::vector<GroupedFeature> features;
  int64_t width = 0;
};

// Table of a feature in a collection.
std::string table_name_in(const FeatureSpec& feature, TableFamily family,
                          const std::string& suffix);

// The lookups of a model, without nodes: deep, wide, then those of sequences.
std::vector<LookupGroup> lookup_groups_of(const config::ModelConfig& model,
                                          const FeatureLayout& layout, int64_t wide_dim);

// Positions in FeatureLayout::sequences of those that SEQUENCE and nested groups name, and of
// sampled items, rising.
std::vector<size_t> sequences_read(const config::ModelConfig& model, const FeatureLayout& layout);

}  // namespace emblem
