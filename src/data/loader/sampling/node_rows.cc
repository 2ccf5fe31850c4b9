#include "data/loader/sampling/node_rows.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/system/log.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "data/feature/row_gather.h"
#include "data/format/decoder.h"
#include "data/items/text_rows.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// The first key of a row; none where it has no value.
std::optional<int64_t> key_in(const SparseColumn& column, size_t row) {
  if (column.offsets.empty()) return column.keys[row];
  const auto begin = static_cast<size_t>(column.offsets[row]);
  if (begin == static_cast<size_t>(column.offsets[row + 1])) return std::nullopt;
  return column.keys[begin];
}

// A row for each node.
Batch features_of(const config::DataConfig& data, const FeatureLayout& layout,
                  const TreeSamplerSpec& sampler, const NodeFeatures& features,
                  const TreeNodes& nodes, const std::string& path) {
  TextRows texts(data, layout_of_features(layout, features.places), sampler.attr_fields, path);
  const auto count = sampler.attr_fields.size();
  for (int32_t node = 0; node < nodes.tree.size(); ++node) {
    const auto fail = [&](const std::string& problem) {
      throw Error(ErrorCode::kCorruption, cat(path, ", node ", nodes.tree.id(node), ": ", problem));
    };
    const std::vector<std::string> attributes =
        split(nodes.attributes[static_cast<size_t>(node)], sampler.attr_delimiter);
    if (attributes.size() != count)
      fail(cat("the node has ", attributes.size(), " attributes, expected ", count, ": ",
               joined(sampler.attr_fields)));
    if (attributes[1] != cat(nodes.tree.id(node)))
      fail(cat("the second attribute is \"", printable(attributes[1]),
               "\", expected the node's id again"));
    const std::string problem = texts.add({attributes.begin(), attributes.end()});
    if (!problem.empty()) fail(problem);
  }
  return texts.features();
}

}  // namespace

NodeRows::NodeRows(const config::DataConfig& data, const FeatureLayout& layout,
                   const TreeSamplerSpec& sampler, const TreePaths& paths)
    : path_(paths.nodes) {
  TreeNodes nodes = read_tree(paths);
  const NodeFeatures features = features_of_nodes(sampler, layout);
  find_columns(layout, features);
  nodes_ = columns_of_items(features_of(data, layout, sampler, features, nodes, path_));
  tree_ = std::move(nodes.tree);
  id_name_ = sampler.item_id_field;
  find_leaves();
}

void NodeRows::find_columns(const FeatureLayout& layout, const NodeFeatures& features) {
  id_ = static_cast<size_t>(features.id);
  dense_cols_ = layout.dense_cols;
  for (const size_t at : features.places) {
    const FeatureSpec& feature = layout.features[at];
    if (feature.kind == FeatureKind::kSparse)
      sparse_.push_back(static_cast<size_t>(feature.sparse_index));
    else
      numbers_.push_back({feature.dense_begin, feature.dense_cols});
  }
}

// What is looked up are keys: values of ids after the feature's rule.
void NodeRows::find_leaves() {
  const auto at = static_cast<size_t>(std::ranges::find(sparse_, id_) - sparse_.begin());
  std::unordered_map<int64_t, int32_t> nodes;
  int64_t repeated = 0;
  for (int32_t node = tree_.size(); node-- > 0;) {
    const auto key = key_in(nodes_.sparse[at], static_cast<size_t>(node));
    if (!key || !nodes.emplace(*key, node).second) ++repeated;
    if (key && node >= tree_.leaves().begin) leaves_[*key] = node;
  }
  if (repeated == 0) return;
  int64_t largest = 0;
  for (int32_t node = 0; node < tree_.size(); ++node) largest = std::max(largest, tree_.id(node));
  log_warn(cat(repeated, " of ", tree_.size(), " nodes of ", path_, " share the key of another in ",
               "the feature of ", in_quotes(id_name_),
               ", which cannot tell them apart; give it num_buckets above ", largest,
               ", the largest id, or more buckets"));
}

int32_t NodeRows::leaf_of(const Batch& batch, size_t row) const {
  const auto key = key_in(batch.sparse[id_], row);
  const auto leaf = key ? leaves_.find(*key) : leaves_.end();
  if (leaf == leaves_.end())
    throw Error(ErrorCode::kInvalidArgument,
                key ? cat("a row has an item (key ", *key, " of ", in_quotes(id_name_),
                          ") that is no leaf of the tree in ", path_,
                          "; make a tree of all items of the data, by emblem tree, or filter rows")
                    : cat("a row has no item (", in_quotes(id_name_),
                          " is missing), of which nodes of a tree are sampled; filter rows"));
  return leaf->second;
}

Batch NodeRows::columns_of_items(const Batch& batch) const {
  Batch items;
  items.rows = batch.rows;
  for (const size_t at : sparse_) items.sparse.push_back(batch.sparse[at]);
  for (int64_t row = 0; row < batch.rows; ++row)
    for (const Numbers& of : numbers_) {
      const auto from = batch.dense.begin() + row * dense_cols_ + of.begin;
      items.dense.insert(items.dense.end(), from, from + of.cols);
    }
  return items;
}

void NodeRows::put_numbers(const Batch& items, Batch& out) const {
  auto from = items.dense.begin();
  for (int64_t row = 0; row < out.rows; ++row)
    for (const Numbers& of : numbers_) {
      std::copy_n(from, of.cols, out.dense.begin() + row * dense_cols_ + of.begin);
      from += of.cols;
    }
}

void NodeRows::gather(const Batch& batch, std::span<const Row> rows, Batch& out) const {
  std::vector<RowRun> of_rows, of_items;
  for (const auto& [row, node] : rows) {
    of_rows.push_back({0, row, 1});
    of_items.push_back(node < 0 ? RowRun{0, row, 1} : RowRun{1, static_cast<uint32_t>(node), 1});
  }
  const Batch own = columns_of_items(batch);
  const Batch* const rows_of[] = {&batch};
  const Batch* const items_of[] = {&own, &nodes_};
  Batch items = batch_in(out.memory());
  gather_rows(rows_of, of_rows, out);
  gather_rows(items_of, of_items, items);
  for (size_t i = 0; i < sparse_.size(); ++i) out.sparse[sparse_[i]] = std::move(items.sparse[i]);
  put_numbers(items, out);
}

}  // namespace emblem
