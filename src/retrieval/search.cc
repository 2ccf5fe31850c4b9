#include "retrieval/search.h"

#include <algorithm>
#include <iterator>

#include "core/memory/prefetch.h"
#include "core/memory/scratch_memory.h"
#include "core/threads/thread_pool.h"
#include "kernels/cpu/tile_product.h"
#include "retrieval/device_items.h"
#include "retrieval/query_bound.h"

namespace emblem {
namespace {

using Results = std::vector<std::vector<ScoredItem>>;

// Queries that are multiplied at a time, and scores that stay in the L2 cache meanwhile.
constexpr int64_t kQueriesAtATime = 256, kScoresAtATime = 64 * 1024, kMostRowsAtATime = 4096;
// Memory of the candidates of queries that share a scan.
constexpr int64_t kCandidateBytes = 128 << 20;

// Calls found(i) for scores[i] >= least, of which there are few.
template <class Found>
void for_each_at_least(const float* scores, int64_t count, float least, Found&& found) {
  constexpr int64_t kStep = 64;
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    int32_t any = 0;
    for (int64_t j = 0; j < kStep; ++j) any |= static_cast<int32_t>(scores[i + j] >= least);
    if (any == 0) [[likely]]
      continue;
    for (int64_t j = i; j < i + kStep; ++j)
      if (scores[j] >= least) found(j);
  }
  for (; i < count; ++i)
    if (scores[i] >= least) found(i);
}

// What a search is given, and what all its threads read.
struct Search {
  std::span<const SearchedSegment> segments;
  View<const float> queries;
  int64_t k;
  const ItemFilter& filter;
  std::vector<QueryBound> bounds;  // of queries

  Search(std::span<const SearchedSegment> segments, View<const float> queries, int64_t k,
         const ItemFilter& filter)
      : segments(segments), queries(queries), k(k), filter(filter) {
    if (segments.empty()) return;
    const bool rounds = segments[0].segment->kernel().type == DType::kBf16;
    std::vector<float> rounded(static_cast<size_t>(queries.cols));
    bounds.reserve(static_cast<size_t>(queries.rows));
    for (int64_t q = 0; q < queries.rows; ++q) {
      const std::span query(queries.row(q), static_cast<size_t>(queries.cols));
      std::ranges::transform(query, rounded.begin(), [&](float value) {
        return rounds ? Bf16::from(value).to_float() : value;
      });
      bounds.push_back(bound_of(query, rounded));
    }
  }

  // Scores candidates that have none yet; their rows are requested from memory beforehand.
  auto exact(int64_t query) const {
    return [this, query](std::span<const Candidate> candidates, ScoredItem* items) {
      static thread_local ScratchMemory<StoredRow> row_memory;
      static thread_local ScratchMemory<float> score_memory;
      StoredRow* const rows = row_memory.take(candidates.size());
      float* const scores = score_memory.take(candidates.size());
      const float* next = scores;
      size_t count = 0;
      for (const Candidate& candidate : candidates) {
        if (candidate.lower == candidate.upper) continue;
        const ItemRows& of = segments[candidate.part].segment->items().rows;
        rows[count] = of.stored(candidate.row);
        prefetch(rows[count++].data, of.row_bytes());
      }
      if (count > 0)
        score_rows(segments[0].segment->items().rows.type(),
                   {queries.row(query), static_cast<size_t>(queries.cols)}, {rows, count}, scores);
      for (const Candidate& candidate : candidates) {
        const ItemTable& in = segments[candidate.part].segment->items();
        const bool known = candidate.lower == candidate.upper;
        *items++ = {known ? candidate.lower : *next++, in.ids[candidate.row]};
      }
    };
  }

  bool may_be_found(int64_t query, const SearchedSegment& in, int64_t row) const {
    if (in.removed != nullptr && (in.removed[row / 64] >> (row % 64) & 1) != 0) return false;
    const ItemTable& items = in.segment->items();
    if ((items.attributes[row] & filter.attributes) != filter.attributes) return false;
    if (filter.exclude.empty()) return true;
    const std::vector<int64_t>& ids = filter.exclude[query];
    return !std::binary_search(ids.begin(), ids.end(), items.ids[row]);
  }
};

// Scores of some rows of a list, from a multiple of kBoundRows on, with some queries; adds what may
// be among the best to the candidates of these.
struct RowBlock {
  int32_t part;
  const ItemList& list;
  int64_t first, count;  // within the list
};

void scan_block(const Search& search, const RowBlock& block, int64_t first_query, int64_t queries,
                Candidates* candidates) {
  static thread_local ScratchMemory<float> memory;
  const SearchedSegment& in = search.segments[block.part];
  const ItemSegment& segment = *in.segment;
  const int64_t dim = search.queries.cols, stride = block.count + 16,
                panels =
                    block.list.panels + block.first / segment.kernel().cols * segment.panel_bytes();
  float* const scores = memory.take(static_cast<size_t>(queries * stride));
  multiply_panels(segment.kernel(), {search.queries.row(first_query), queries, dim, dim, 1}, 1.0f,
                  segment.panels() + panels, segment.panel_bytes(), block.count, false, scores,
                  stride);
  for (int64_t q = 0; q < queries; ++q) {
    const auto exact = search.exact(first_query + q);
    for (int64_t begin = 0; begin < block.count; begin += ItemSegment::kBoundRows) {
      const float* const row_scores = scores + q * stride + begin;
      const float margin = search.bounds[first_query + q].of(
          segment.bounds()[block.list.bound + (block.first + begin) / ItemSegment::kBoundRows]);
      const int64_t first_row = block.list.first + block.first + begin;
      for_each_at_least(row_scores, std::min(ItemSegment::kBoundRows, block.count - begin),
                        candidates[q].threshold() - margin, [&](int64_t i) {
                          const float score = row_scores[i];
                          if (score + margin < candidates[q].threshold())
                            return;  // it may have risen
                          if (!search.may_be_found(first_query + q, in, first_row + i)) return;
                          candidates[q].add({score - margin, score + margin, block.part,
                                             static_cast<int32_t>(first_row + i)},
                                            exact);
                        });
    }
  }
}

int64_t rows_at_a_time(int64_t queries) {
  const int64_t rows = kScoresAtATime / queries / ItemSegment::kBoundRows * ItemSegment::kBoundRows;
  return std::clamp(rows, ItemSegment::kBoundRows, kMostRowsAtATime);
}

void scan_list(const Search& search, int32_t part, const ItemList& list, int64_t first_query,
               int64_t queries, Candidates* candidates) {
  const int64_t step = rows_at_a_time(queries);
  for (int64_t first = 0; first < list.count; first += step)
    scan_block(search, {part, list, first, std::min(step, list.count - first)}, first_query,
               queries, candidates);
}

// Lists of the first segment, the nearest first: it gives the best threshold for the others.
void scan_probes(const Search& search, int64_t query, std::span<const ScoredItem> probes,
                 const ListBounds& bounds, Candidates& candidates) {
  constexpr int64_t kPrefetched = 1024;  // bytes; the CPU itself fetches what follows
  const ItemSegment& segment = *search.segments[0].segment;
  const double length =
      length_of({search.queries.row(query), static_cast<size_t>(search.queries.cols)});
  for (size_t at = 0; at < probes.size(); ++at) {
    const int64_t list = probes[at].id;
    if (bounds.of(list, probes[at].score, length) < candidates.threshold()) continue;
    if (at + 1 < probes.size())
      prefetch(segment.panels() + segment.lists()[probes[at + 1].id].panels, kPrefetched);
    scan_list(search, 0, segment.lists()[list], query, 1, &candidates);
    candidates.raise_threshold();
  }
}

// Blocks of rows of all segments.
std::vector<RowBlock> blocks_of(std::span<const SearchedSegment> segments, int64_t rows) {
  std::vector<RowBlock> blocks;
  for (size_t part = 0; part < segments.size(); ++part)
    for (const ItemList& list : segments[part].segment->lists())
      for (int64_t first = 0; first < list.count; first += rows)
        blocks.push_back(
            {static_cast<int32_t>(part), list, first, std::min(rows, list.count - first)});
  return blocks;
}

// Queries [first, first + count), in tiles of queries by parts of the items: enough for all
// threads.
void search_group(const Context& context, const Search& search, int64_t first, int64_t count,
                  Results& results) {
  const int64_t tile = std::min(count, kQueriesAtATime), tiles = (count + tile - 1) / tile;
  const std::vector<RowBlock> blocks = blocks_of(search.segments, rows_at_a_time(tile));
  const int64_t size = static_cast<int64_t>(blocks.size()),
                threads = context.threads == nullptr ? 1 : context.threads->threads(),
                parts = std::clamp<int64_t>(threads / tiles, 1, std::max<int64_t>(1, size));
  std::vector<Candidates> candidates(static_cast<size_t>(parts * count), Candidates(search.k));
  parallel_for(context, parts * tiles, 1, [&](int64_t at, int64_t) {
    const int64_t part = at / tiles, query = at % tiles * tile;
    for (int64_t b = size * part / parts; b < size * (part + 1) / parts; ++b)
      scan_block(search, blocks[b], first + query, std::min(tile, count - query),
                 candidates.data() + part * count + query);
  });
  parallel_for(context, count, 1, [&](int64_t q, int64_t) {
    const auto exact = search.exact(first + q);
    for (int64_t part = 1; part < parts; ++part)
      candidates[q].merge(candidates[part * count + q], exact);
    results[first + q] = candidates[q].best(exact);
  });
}

void require_panels(const Context& context, std::span<const SearchedSegment> segments) {
  for (const SearchedSegment& in : segments)
    EMBLEM_REQUIRE(context.device == Device::kCpu && in.segment->device_items() == nullptr,
                   "items that were indexed for a GPU are searched there; use its context");
}

Results search_on_cpu(const Context& context, const Search& search) {
  require_panels(context, search.segments);
  Results results(static_cast<size_t>(search.queries.rows));
  const int64_t bytes =
                    std::max<int64_t>(4 * search.k, 256) * static_cast<int64_t>(sizeof(Candidate)),
                group = std::clamp<int64_t>(kCandidateBytes / bytes, 1, 4 * kQueriesAtATime);
  for (int64_t first = 0; first < search.queries.rows; first += group)
    search_group(context, search, first, std::min(group, search.queries.rows - first), results);
  return results;
}

// The best of each segment by itself, and of these the best.
Results search_on_device(const Context& context, std::span<const SearchedSegment> segments,
                         View<const float> queries, int64_t k, const ItemFilter& filter) {
  Results results(static_cast<size_t>(queries.rows));
  for (const SearchedSegment& in : segments) {
    EMBLEM_REQUIRE(in.segment->device_items() != nullptr,
                   "items that were indexed for a CPU cannot be searched on a GPU");
    Results found = in.segment->device_items()->search(context, queries, k, filter, in.removed);
    for (size_t q = 0; q < results.size(); ++q) {
      if (!results[q].empty()) {
        std::vector<ScoredItem> both;
        std::ranges::merge(results[q], found[q], std::back_inserter(both), std::less<>());
        both.resize(std::min(both.size(), static_cast<size_t>(k)));
        found[q] = std::move(both);
      }
      results[q] = std::move(found[q]);
    }
  }
  return results;
}

}  // namespace

std::vector<std::vector<ScoredItem>> search_items(const Context& context,
                                                  std::span<const SearchedSegment> segments,
                                                  View<const float> queries, int64_t k,
                                                  const ItemFilter& filter) {
  return dispatch(
      context.device, [&] { return search_on_cpu(context, Search(segments, queries, k, filter)); },
      [&] { return search_on_device(context, segments, queries, k, filter); });
}

std::vector<std::vector<ScoredItem>> search_lists(const Context& context,
                                                  std::span<const SearchedSegment> segments,
                                                  View<const float> queries, int64_t k,
                                                  const ItemFilter& filter, const Probes& probes) {
  require_panels(context, segments);
  const Search search(segments, queries, k, filter);
  Results results(static_cast<size_t>(queries.rows));
  parallel_for(context, queries.rows, 1, [&](int64_t q, int64_t) {
    Candidates candidates(k);
    scan_probes(search, q, probes.of_query[q], probes.bounds, candidates);
    for (size_t part = 1; part < segments.size(); ++part)
      for (const ItemList& list : segments[part].segment->lists())
        scan_list(search, static_cast<int32_t>(part), list, q, 1, &candidates);
    results[q] = candidates.best(search.exact(q));
  });
  return results;
}

}  // namespace emblem
