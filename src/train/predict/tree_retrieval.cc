#include "train/predict/tree_retrieval.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <unordered_map>

#include "config/feature/tree_items.h"
#include "core/system/log.h"
#include "core/system/seconds_since.h"
#include "core/text/text.h"
#include "data/format/text/csv_types.h"
#include "emblem/error.h"
#include "model/models.h"
#include "train/predict/item_vectors.h"

namespace emblem {
namespace {

struct ScoredNode {
  float score;
  int64_t id;
  int32_t node;
};

// Sorts the best `most` first and drops others.
void keep_best(std::vector<ScoredNode>& nodes, int64_t most) {
  const auto count = std::min<int64_t>(most, std::ssize(nodes));
  std::ranges::partial_sort(nodes, nodes.begin() + count, [](const auto& a, const auto& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  });
  nodes.resize(static_cast<size_t>(count));
}

TreeSamplerSpec sampler_of(const config::PipelineConfig& config) {
  const auto sampler = tree_sampler_of(config.data_config());
  EMBLEM_REQUIRE(sampler.has_value(),
                 "a search of a tree needs a model trained with data_config.tdm_sampler; this one "
                 "is ",
                 model_name(config.model_config()));
  return *sampler;
}

// What rows have besides what nodes have.
FeatureLayout layout_of_users(FeatureLayout layout, const TreeSamplerSpec& sampler) {
  for (const size_t at : features_of_nodes(sampler, layout).places)
    layout.features[at].inputs.clear();
  return layout;
}

// What users chose and saw: items by user, in the order of their first rows.
class Choices {
 public:
  explicit Choices(const FullRetrievalOptions& options) : options_(options) {
    keep_ = {options.item_id};
    if (!options.user_id.empty()) keep_.push_back(options.user_id);
  }

  const std::vector<std::string>& keep() const { return keep_; }

  void add_chosen(const std::vector<std::string>& kept, const std::string& where) {
    const auto [user, is_new] = place(kept);
    if (is_new) chosen.emplace_back();
    chosen[user].push_back(parse_item_id(kept.at(0), options_.item_id, where));
  }
  void add_seen(const std::vector<std::string>& kept, const std::string& where) {
    const int64_t item = parse_item_id(kept.at(0), options_.item_id, where);
    const auto user = users_.find(kept.at(1));
    if (user != users_.end()) seen[user->second].push_back(item);
  }
  // Whether a row is the first of its user, when rows are read again.
  bool is_first(const std::vector<std::string>& kept, size_t* user) {
    *user = options_.user_id.empty() ? next_ : users_.at(kept.at(1));
    if (*user != next_) return false;
    ++next_;
    return true;
  }

  // Of what a user has seen, leaves what was not chosen.
  void sort() {
    for (size_t user = 0; user < chosen.size(); ++user) {
      for (auto* items : {&chosen[user], &seen[user]}) {
        std::ranges::sort(*items);
        items->erase(std::unique(items->begin(), items->end()), items->end());
      }
      std::vector<int64_t> others;
      std::ranges::set_difference(seen[user], chosen[user], std::back_inserter(others));
      seen[user] = std::move(others);
    }
  }

  std::vector<std::vector<int64_t>> chosen, seen;

 private:
  std::pair<size_t, bool> place(const std::vector<std::string>& kept) {
    if (options_.user_id.empty()) return {chosen.size(), true};
    const auto [user, is_new] = users_.emplace(kept.at(1), chosen.size());
    return {user->second, is_new};
  }

  const FullRetrievalOptions& options_;
  std::vector<std::string> keep_;
  std::unordered_map<std::string, size_t> users_;
  size_t next_ = 0;
};

bool is_bad(const Batch& batch, size_t row) { return !batch.bad.empty() && batch.bad[row] != 0; }

// Calls take(batch) for all rows of a file.
template <class Take>
void each_batch(const RestoredModel& model, const std::string& input, const FeatureLayout& layout,
                const std::vector<std::string>& keep, const std::vector<std::string>& filters,
                const PassWatch& watch, const Take& take) {
  const auto loader = model.read_rows(input, layout, keep, filters);
  for (Batch batch; loader->next(batch);) {
    if (watch.cancel.is_cancelled())
      throw Error(ErrorCode::kCancelled, "interrupted: the evaluation is incomplete");
    take(batch, *loader);
  }
}

// Calls take(kept columns, where) for the rows that can be read; returns how many can not.
template <class Take>
int64_t each_choice(const RestoredModel& model, const std::string& input,
                    const FeatureLayout& layout, const std::vector<std::string>& keep,
                    const std::vector<std::string>& filters, const PassWatch& watch,
                    const Take& take) {
  int64_t row = 0, bad = 0;
  each_batch(model, input, layout, keep, filters, watch, [&](const Batch& batch, const Loader&) {
    for (size_t i = 0; i < static_cast<size_t>(batch.rows); ++i) {
      ++row;
      if (is_bad(batch, i))
        ++bad;
      else
        take(split_csv_line(batch.kept[i], ','), cat(input, ", row ", row));
    }
  });
  const int64_t most_bad = model.config().data_config().max_bad_rows();
  if (bad > most_bad)
    throw Error(ErrorCode::kCorruption,
                cat(bad, " rows of ", input, " cannot be read, data_config.max_bad_rows allows ",
                    most_bad));
  return bad;
}

void warn_of_items_without_leaf(const Choices& choices, const NodeRows& nodes) {
  const ItemTree& tree = nodes.tree();
  std::vector<int64_t> ids;
  for (int32_t leaf = tree.leaves().begin; leaf < tree.leaves().end; ++leaf)
    ids.push_back(tree.id(leaf));
  std::ranges::sort(ids);
  int64_t missing = 0, all = 0;
  for (const std::vector<int64_t>& chosen : choices.chosen)
    for (const int64_t id : chosen) {
      ++all;
      missing += std::ranges::binary_search(ids, id) ? 0 : 1;
    }
  if (missing > 0)
    log_warn(cat(missing, " of ", all, " chosen items are not in the tree of ", nodes.path(),
                 " and count as not found"));
}

}  // namespace

ItemTree::Nodes first_nodes(const ItemTree& tree, int64_t k) {
  int64_t level = 0;
  for (int64_t size = 1; level + 1 < tree.levels() && size < 2 * tree.most_children() * k;
       size *= tree.most_children())
    ++level;
  return tree.level(level);
}

NodeScorer::NodeScorer(const Context& context, Model& model, const NodeRows& nodes,
                       int64_t max_rows)
    : context_(context),
      model_(model),
      nodes_(nodes),
      max_rows_(static_cast<size_t>(max_rows)),
      stream_(context, [this] { return &batches_[turn_]; }) {}

void NodeScorer::score(const Batch& users, std::span<const NodeRows::Row> rows,
                       std::vector<float>& scores) {
  scores.clear();
  while (scores.size() < rows.size()) {
    const auto some = rows.subspan(scores.size(), std::min(max_rows_, rows.size() - scores.size()));
    turn_ = 1 - turn_;
    nodes_.gather(users, some, batches_[turn_]);
    stream_.next();
    model_.forward(context_, stream_.batch(), Phase::kEval, 0);
    const View<const float> logits = logits_.of(context_, model_, batches_[turn_].rows)[0];
    for (int64_t row = 0; row < logits.rows; ++row) {
      const float* of = logits.data + row * logits.cols;
      scores.push_back(logits.cols == 1 ? of[0] : of[1] - of[0]);
      EMBLEM_REQUIRE(std::isfinite(scores.back()), "the score of node ",
                     nodes_.tree().id(some[static_cast<size_t>(row)].node),
                     " is NaN or infinite: training has diverged; use an earlier checkpoint");
    }
  }
}

std::vector<std::vector<int64_t>> search_tree(const ItemTree& tree, NodeScorer& scorer,
                                              const Batch& users, std::span<const uint32_t> rows,
                                              std::span<const ExcludedItems> excluded, int64_t k) {
  const ItemTree::Nodes first = first_nodes(tree, k);
  std::vector<std::vector<int32_t>> open(rows.size());
  for (auto& nodes : open)
    for (int32_t node = first.begin; node < first.end; ++node) nodes.push_back(node);
  std::vector<NodeRows::Row> scored;
  std::vector<float> scores;
  std::vector<std::vector<int64_t>> found(rows.size());
  for (bool is_last = false; !is_last;) {
    is_last = rows.empty() || open[0][0] >= tree.leaves().begin;
    scored.clear();
    for (size_t i = 0; i < rows.size(); ++i)
      for (const int32_t node : open[i]) scored.push_back({rows[i], node});
    scorer.score(users, scored, scores);
    auto score = scores.begin();
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<ScoredNode> nodes;
      for (const int32_t node : open[i]) {
        const int64_t id = tree.id(node);
        const bool is_excluded = is_last && std::ranges::binary_search(excluded[i], id);
        if (!is_excluded) nodes.push_back({*score, id, node});
        ++score;
      }
      keep_best(nodes, is_last ? k : 2 * k);
      open[i].clear();
      for (const ScoredNode& best : nodes) {
        if (is_last) found[i].push_back(best.id);
        const ItemTree::Nodes children = tree.children(best.node);
        for (int32_t node = children.begin; node < children.end; ++node) open[i].push_back(node);
      }
    }
  }
  return found;
}

Evaluation evaluate_tree_retrieval(const Context& context, RestoredModel& model,
                                   const TreeRetrievalOptions& options, const PassWatch& watch) {
  const auto start = std::chrono::steady_clock::now();
  FullRetrievalOptions search = options.search;
  check_retrieval(search);
  const TreeSamplerSpec sampler = sampler_of(model.config());
  if (search.item_id.empty()) search.item_id = sampler.item_id_field;
  const std::filesystem::path folder(options.tree);
  const config::DataConfig& data = model.config().data_config();
  const NodeRows nodes(data, model.layout(), sampler,
                       {.nodes = (folder / kNodeTable).string(),
                        .edges = (folder / kPredictEdgeTable).string(),
                        .kind = TreeEdges::kChildren,
                        .field_delimiter = sampler.field_delimiter,
                        .attr_delimiter = sampler.attr_delimiter});
  const FeatureLayout layout = layout_of_users(model.layout(), sampler);
  Choices choices(search);
  const int64_t bad = each_choice(
      model, search.input, layout, choices.keep(), search.filters, watch,
      [&](const auto& kept, const std::string& where) { choices.add_chosen(kept, where); });
  EMBLEM_REQUIRE(!choices.chosen.empty(), search.input, " has no rows",
                 search.filters.empty() ? "" : " that fulfil the filters");
  choices.seen.resize(choices.chosen.size());
  if (!search.seen.empty())
    each_choice(model, search.seen, layout, choices.keep(), {}, watch,
                [&](const auto& kept, const std::string& where) { choices.add_seen(kept, where); });
  choices.sort();
  warn_of_items_without_leaf(choices, nodes);

  model.model().take_lookup_counts(context);  // counts of passes before this one
  NodeScorer scorer(context, model.model(), nodes, rows_with_samples(data, data.batch_size()));
  RetrievalMetrics metrics(search.most);
  const int64_t k = std::ranges::max(search.most);
  Evaluation evaluation{.bad_rows = bad};
  each_batch(model, search.input, layout, choices.keep(), search.filters, watch,
             [&](const Batch& batch, const Loader& loader) {
               std::vector<uint32_t> rows;
               std::vector<size_t> users;
               std::vector<ExcludedItems> excluded;
               for (uint32_t row = 0; row < static_cast<uint32_t>(batch.rows); ++row) {
                 if (is_bad(batch, row)) continue;
                 ++evaluation.rows;
                 size_t user = 0;
                 if (!choices.is_first(split_csv_line(batch.kept[row], ','), &user)) continue;
                 rows.push_back(row);
                 users.push_back(user);
                 excluded.emplace_back(choices.seen[user]);
               }
               const auto found = search_tree(nodes.tree(), scorer, batch, rows, excluded, k);
               for (size_t i = 0; i < users.size(); ++i)
                 metrics.add(found[i], choices.chosen[users[i]]);
               if (watch.progress)
                 watch.progress({.rows = evaluation.rows, .expected_rows = loader.expected_rows()});
             });
  if (watch.progress)
    watch.progress({.rows = evaluation.rows,
                    .expected_rows = evaluation.rows,
                    .state = PassProgress::State::kEnded});
  model.model().check(context);
  evaluation.metrics = metrics.values();
  evaluation.lookups = model.model().take_lookup_counts(context);
  evaluation.seconds = seconds_since(start);
  return evaluation;
}

}  // namespace emblem
