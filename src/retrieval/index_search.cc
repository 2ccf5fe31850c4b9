// Searches of an Index, and how much of the best those of some lists find.
#include <algorithm>

#include "core/text/joined.h"
#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "emblem/error.h"
#include "retrieval/index.h"

namespace emblem {
namespace {

void require_lists(const char* of, size_t lists, int64_t queries) {
  EMBLEM_REQUIRE(lists == 0 || static_cast<int64_t>(lists) == queries, "there are ", lists,
                 " lists of ", of, " ids for ", queries,
                 " queries; expected one for each query, or none");
}

void sort_each(std::vector<std::vector<int64_t>>& lists) {
  for (std::vector<int64_t>& ids : lists) std::ranges::sort(ids);
}

}  // namespace

uint64_t Index::attribute_bits(const std::vector<std::string>& names) const {
  uint64_t bits = 0;
  for (const std::string& name : names) {
    const auto at = std::ranges::find(settings_.attributes, name);
    EMBLEM_REQUIRE(
        at != settings_.attributes.end(), "unknown attribute \"", printable(name), "\"; ",
        settings_.attributes.empty() ? "the index has none"
                                     : cat("the index has ", joined(settings_.attributes, ", ")));
    bits |= uint64_t{1} << (at - settings_.attributes.begin());
  }
  return bits;
}

Index::Results Index::search(const Context& context, View<const float> queries,
                             const SearchOptions& options, int64_t* change) const {
  const int64_t asked = options.probes.value_or(settings_.probes);
  EMBLEM_REQUIRE(queries.rows == 0 || queries.cols == settings_.dim, "queries have ", queries.cols,
                 " elements, but vectors of this index have ", settings_.dim);
  EMBLEM_REQUIRE(options.k >= 1, "k is ", options.k, "; it must be at least 1");
  EMBLEM_REQUIRE(asked >= 1, "probes is ", asked, "; it must be at least 1");
  require_lists("excluded", options.exclude.size(), queries.rows);
  require_lists("allowed", options.only.size(), queries.rows);
  std::vector<std::vector<int64_t>> exclude = options.exclude;
  sort_each(exclude);
  const ItemFilter filter{attribute_bits(options.allow), exclude};
  std::vector<float> vectors(queries.data, queries.data + queries.size());
  for (int64_t q = 0; q < queries.rows; ++q)
    check_and_normalize(std::span(vectors).subspan(q * settings_.dim, settings_.dim),
                        settings_.similarity, cat("query ", q));
  const View<const float> view{vectors.data(), queries.rows, settings_.dim};

  const auto now = state();
  if (change != nullptr) *change = now->changes;
  int64_t live = 0;
  for (const Part& part : now->parts) live += part.live;
  const int64_t k = std::clamp<int64_t>(options.k, 1, std::max<int64_t>(1, live));
  return options.only.empty() ? search_all(context, *now, view, k, filter, asked)
                              : search_only(context, *now, view, k, filter, options.only);
}

Index::Results Index::search_all(const Context& context, const State& state,
                                 View<const float> queries, int64_t k, const ItemFilter& filter,
                                 int64_t probes) const {
  std::vector<SearchedSegment> segments;
  for (const Part& part : state.parts)
    segments.push_back(
        {part.segment.get(), part.removed == nullptr ? nullptr : part.removed->data()});
  if (state.centroids == nullptr || probes >= state.centroids->count())
    return search_items(context, segments, queries, k, filter);
  const SearchedSegment centroids{state.centroids.get()};
  const Results nearest = search_items(context, {&centroids, 1}, queries, probes, {});
  return search_lists(context, segments, queries, k, filter, {nearest, *state.bounds});
}

// Looks items up by their ids; nothing is scanned. Their rows are on the host with any device.
Index::Results Index::search_only(const Context& context, const State& state,
                                  View<const float> queries, int64_t k, const ItemFilter& filter,
                                  std::span<const std::vector<int64_t>> only) const {
  Results results(static_cast<size_t>(queries.rows));
  parallel_for(context, queries.rows, 1, [&](int64_t q, int64_t) {
    std::vector<int64_t> ids = only[q];
    std::ranges::sort(ids);
    const auto repeated = std::ranges::unique(ids);
    ids.erase(repeated.begin(), repeated.end());
    std::vector<StoredRow> rows;
    std::vector<ScoredItem>& items = results[q];
    for (const int64_t id : ids) {
      if (!filter.exclude.empty() && std::ranges::binary_search(filter.exclude[q], id)) continue;
      const auto found = find(state, id);
      if (!found) continue;
      const ItemTable& in = state.parts[found->part].segment->items();
      if ((in.attributes[found->row] & filter.attributes) != filter.attributes) continue;
      rows.push_back(in.rows.stored(found->row));
      items.push_back({0.0f, id});
    }
    std::vector<float> scores(rows.size());
    score_rows(settings_.dtype, {queries.row(q), static_cast<size_t>(queries.cols)}, rows,
               scores.data());
    for (size_t i = 0; i < items.size(); ++i) items[i].score = scores[i];
    std::sort(items.begin(), items.end());
    items.resize(std::min(items.size(), static_cast<size_t>(k)));
  });
  return results;
}

// ---- recall ----

// Items as queries, and what an exact search finds.
struct Index::RecallSample {
  std::shared_ptr<const State> state;
  std::vector<float> vectors;
  std::vector<std::vector<int64_t>> own;  // of each query: the item that it is
  Results best;

  View<const float> queries() const {
    const auto count = static_cast<int64_t>(own.size());
    return {vectors.data(), count,
            static_cast<int64_t>(vectors.size()) / std::max<int64_t>(1, count)};
  }
};

Index::RecallSample Index::draw_recall_sample(const Context& context) const {
  RecallSample sample{.state = state()};
  const int64_t items = count(), drawn = std::min(items, kRecallItems);
  int64_t live = 0, next = 0;  // item number next * items / drawn is the next query
  std::vector<float> row(static_cast<size_t>(settings_.dim));
  for (const Part& part : sample.state->parts) {
    const ItemTable& in = part.segment->items();
    for (int64_t at = 0; at < part.segment->count() && next < drawn; ++at) {
      if (!part.is_live(at) || live++ != next * items / drawn) continue;
      in.rows.read(at, row.data());
      sample.vectors.insert(sample.vectors.end(), row.begin(), row.end());
      sample.own.push_back({in.ids[at]});
      ++next;
    }
  }
  sample.best = search_all(context, *sample.state, sample.queries(), kRecallK,
                           {.exclude = sample.own}, items);
  return sample;
}

double Index::recall_of(const Context& context, const RecallSample& sample, int64_t probes) const {
  const Results found = search_all(context, *sample.state, sample.queries(), kRecallK,
                                   {.exclude = sample.own}, probes);
  int64_t both = 0, all = 0;
  for (size_t q = 0; q < found.size(); ++q) {
    all += std::ssize(sample.best[q]);
    for (const ScoredItem& item : found[q])
      both += std::binary_search(sample.best[q].begin(), sample.best[q].end(), item) ? 1 : 0;
  }
  return all == 0 ? 1.0 : static_cast<double>(both) / static_cast<double>(all);
}

void Index::measure_recall(const Context& context) {
  settings_.recall = recall_of(context, draw_recall_sample(context), settings_.probes);
}

// The recall does not fall as probes rise, and all lists have all items.
void Index::choose_probes(const Context& context, double wanted) {
  EMBLEM_REQUIRE(wanted > 0.0 && wanted <= 1.0, "a recall of ", wanted,
                 " is not above 0 and at most 1");
  const RecallSample sample = draw_recall_sample(context);
  const int64_t lists = sample.state->centroids == nullptr ? 1 : sample.state->centroids->count();
  int64_t few = 0, enough = 1;
  double recall = recall_of(context, sample, enough);
  while (recall < wanted && enough < lists) {
    few = enough;
    enough = std::min(2 * enough, lists);
    recall = recall_of(context, sample, enough);
  }
  while (enough - few > 1) {
    const int64_t middle = few + (enough - few) / 2;
    const double reached = recall_of(context, sample, middle);
    if (reached >= wanted) {
      enough = middle;
      recall = reached;
    } else {
      few = middle;
    }
  }
  settings_.probes = enough;
  settings_.recall = recall;
}

}  // namespace emblem
