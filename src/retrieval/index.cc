#include "retrieval/index.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "retrieval/clusters.h"

namespace emblem {
namespace {

constexpr size_t kMostAttributes = 64;
constexpr int64_t kMostDim = 65536;

const cpu::TileKernel* kernel_for(std::optional<DType> scan) {
  if (!scan) return &scan_kernel();
  EMBLEM_REQUIRE(*scan == DType::kF32 || *scan == DType::kBf16, "scans are in fp32 or bf16, not ",
                 name_of(*scan));
  return &cpu::tile_kernel(*scan, cpu::Rows::kAny);
}

// A vector of an item or a query, as it is compared: normalized for cosine.
void check_and_normalize(std::span<float> vector, Similarity similarity, const std::string& whose) {
  const double length = length_of(vector);
  EMBLEM_REQUIRE(std::isfinite(length), "the vector of ", whose,
                 " contains NaN or infinite elements");
  EMBLEM_REQUIRE(length <= kLongestVector, "the vector of ", whose, " is of length ", length,
                 "; at most ", kLongestVector, " is possible");
  if (similarity != Similarity::kCosine) return;
  EMBLEM_REQUIRE(length > 0.0, "the vector of ", whose, " is all zeros, which has no cosine");
  normalize(vector);
}

}  // namespace

Index::Index(const IndexSettings& settings)
    : settings_(settings),
      kernel_(kernel_for(settings.scan)),
      state_(std::make_shared<const State>()) {
  EMBLEM_REQUIRE(settings.dim >= 1 && settings.dim <= kMostDim, "an index cannot have a dim of ",
                 settings.dim, "; it is from 1 to ", kMostDim);
  EMBLEM_REQUIRE(settings.lists >= 0, "an index cannot have ", settings.lists, " lists");
  EMBLEM_REQUIRE(settings.attributes.size() <= kMostAttributes, "an index has at most ",
                 kMostAttributes, " attributes, not ", settings.attributes.size());
  std::unordered_set<std::string> names;
  for (const std::string& name : settings.attributes)
    EMBLEM_REQUIRE(!name.empty() && names.insert(name).second, "attribute \"", printable(name),
                   "\" is ", name.empty() ? "not a name" : "given twice");
}

std::unique_ptr<Index> Index::build(const Context& context, const IndexSettings& settings,
                                    const Items& items) {
  auto index = std::make_unique<Index>(settings);
  index->set_state(index->built(context, index->table_of(items)));
  return index;
}

void Index::require_device(const Context& context) const {
  EMBLEM_REQUIRE(context.device == Device::kCpu || settings_.kind == IndexKind::kFlat,
                 "an index of kind ivf_flat is searched on a CPU; use --device cpu, or kind flat");
}

std::shared_ptr<const Index::State> Index::state() const {
  const std::lock_guard lock(state_mutex_);
  return state_;
}

void Index::set_state(State state) {
  auto next = std::make_shared<const State>(std::move(state));
  const std::lock_guard lock(state_mutex_);
  state_.swap(next);  // what no search uses any longer is freed after the lock
}

int64_t Index::count() const {
  int64_t count = 0;
  for (const Part& part : state()->parts) count += part.live;
  return count;
}

int64_t Index::memory_bytes() const {
  const auto now = state();
  int64_t bytes = now->centroids == nullptr ? 0 : now->centroids->memory_bytes();
  for (const Part& part : now->parts) bytes += part.segment->memory_bytes();
  return bytes;
}

// ---- search ----

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

std::vector<std::vector<ScoredItem>> Index::search(const Context& context,
                                                   View<const float> queries,
                                                   const SearchOptions& options) const {
  EMBLEM_REQUIRE(queries.rows == 0 || queries.cols == settings_.dim, "queries have ", queries.cols,
                 " elements, but vectors of this index have ", settings_.dim);
  EMBLEM_REQUIRE(options.k >= 1, "k is ", options.k, "; it must be at least 1");
  EMBLEM_REQUIRE(options.probes >= 1, "probes is ", options.probes, "; it must be at least 1");
  EMBLEM_REQUIRE(
      options.exclude.empty() || static_cast<int64_t>(options.exclude.size()) == queries.rows,
      "there are ", options.exclude.size(), " lists of excluded ids for ", queries.rows,
      " queries; expected one for each query, or none");
  std::vector<std::vector<int64_t>> exclude = options.exclude;
  for (std::vector<int64_t>& ids : exclude) std::ranges::sort(ids);
  const ItemFilter filter{attribute_bits(options.allow), exclude};
  std::vector<float> vectors(queries.data, queries.data + queries.size());
  for (int64_t q = 0; q < queries.rows; ++q)
    check_and_normalize(std::span(vectors).subspan(q * settings_.dim, settings_.dim),
                        settings_.similarity, cat("query ", q));
  const View<const float> view{vectors.data(), queries.rows, settings_.dim};

  const auto now = state();
  std::vector<SearchedSegment> segments;
  int64_t live = 0;
  for (const Part& part : now->parts) {
    segments.push_back(
        {part.segment.get(), part.removed == nullptr ? nullptr : part.removed->data()});
    live += part.live;
  }
  const int64_t k = std::clamp<int64_t>(options.k, 1, std::max<int64_t>(1, live));
  if (now->centroids == nullptr) return search_items(context, segments, view, k, filter);
  const SearchedSegment centroids{now->centroids.get()};
  const int64_t probes = std::min(options.probes, now->centroids->count());
  return search_lists(context, segments, view, k, filter,
                      search_items(context, {&centroids, 1}, view, probes, {}));
}

// ---- changes ----

ItemTable Index::table_of(const Items& items) const {
  EMBLEM_REQUIRE(static_cast<int64_t>(items.ids.size()) == items.vectors.rows, "there are ",
                 items.vectors.rows, " vectors for ", items.ids.size(), " ids");
  EMBLEM_REQUIRE(items.ids.empty() || items.vectors.cols == settings_.dim, "vectors have ",
                 items.vectors.cols, " elements, but those of this index have ", settings_.dim);
  EMBLEM_REQUIRE(items.attributes.empty() || items.attributes.size() == items.ids.size(),
                 "there are attributes of ", items.attributes.size(), " items for ",
                 items.ids.size(), " ids");
  ItemTable table{.rows = ItemRows(settings_.dtype, settings_.dim),
                  .ids = {items.ids.begin(), items.ids.end()},
                  .attributes = {items.attributes.begin(), items.attributes.end()}};
  table.attributes.resize(table.ids.size());
  table.rows.reserve(items.vectors.rows);
  const size_t names = settings_.attributes.size();
  std::vector<float> vector(static_cast<size_t>(settings_.dim));
  for (int64_t i = 0; i < items.vectors.rows; ++i) {
    EMBLEM_REQUIRE(names == kMostAttributes || table.attributes[i] >> names == 0, "item ",
                   table.ids[i], " has attributes that the index does not know; it has ", names);
    std::copy_n(items.vectors.row(i), settings_.dim, vector.begin());
    check_and_normalize(vector, settings_.similarity, cat("item ", table.ids[i]));
    table.rows.append(vector);
  }
  return table;
}

Index::Part Index::part_of(const Context& context, ItemTable items,
                           std::vector<int64_t> lists) const {
  Part part;
  part.live = items.rows.count();
  part.segment =
      std::make_shared<const ItemSegment>(context, std::move(items), std::move(lists), kernel_);
  return part;
}

// One part with all items, in lists where the kind has them and there are enough.
Index::State Index::built(const Context& context, ItemTable items) const {
  require_device(context);
  State state;
  const int64_t count = items.rows.count();
  if (count == 0) return state;
  if (settings_.kind == IndexKind::kFlat) {
    state.parts.push_back(part_of(context, std::move(items), {count}));
    return state;
  }
  const auto usual = static_cast<int64_t>(2.0 * std::sqrt(static_cast<double>(count)));
  const int64_t lists =
      std::clamp<int64_t>(settings_.lists > 0 ? settings_.lists : usual, 1, count);
  state.centroids = train_clusters(
      context, items.rows,
      {.lists = lists, .similarity = settings_.similarity, .seed = settings_.seed}, kernel_);
  const std::vector<int32_t> list_of =
      assign_clusters(context, items.rows, *state.centroids, settings_.similarity);
  std::vector<int64_t> order(static_cast<size_t>(count)), lengths(static_cast<size_t>(lists));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int64_t row) { return list_of[row]; });
  for (const int32_t list : list_of) ++lengths[list];
  ItemTable sorted{.rows = ItemRows(settings_.dtype, settings_.dim)};
  sorted.rows.reserve(count);
  for (const int64_t row : order) {
    sorted.rows.append(items.rows, row);
    sorted.ids.push_back(items.ids[row]);
    sorted.attributes.push_back(items.attributes[row]);
  }
  state.parts.push_back(part_of(context, std::move(sorted), std::move(lengths)));
  return state;
}

std::optional<Index::Found> Index::find(const State& state, int64_t id) {
  for (size_t part = 0; part < state.parts.size(); ++part) {
    const auto row = state.parts[part].segment->find(id);
    if (row && state.parts[part].is_live(*row)) return Found{part, *row};
  }
  return std::nullopt;
}

void Index::remove_rows(State& state, std::span<const Found> rows) {
  for (size_t at = 0; at < state.parts.size(); ++at) {
    Part& part = state.parts[at];
    std::shared_ptr<std::vector<uint64_t>> removed;
    for (const Found& found : rows) {
      if (found.part != at) continue;
      if (removed == nullptr) {
        removed = part.removed != nullptr
                      ? std::make_shared<std::vector<uint64_t>>(*part.removed)
                      : std::make_shared<std::vector<uint64_t>>(part.segment->count() / 64 + 1);
      }
      (*removed)[found.row / 64] |= uint64_t{1} << (found.row % 64);
      --part.live;
    }
    if (removed != nullptr) part.removed = std::move(removed);
  }
}

void Index::append_live(const Part& part, int64_t begin, int64_t end, ItemTable& to) {
  const ItemTable& items = part.segment->items();
  for (int64_t row = begin; row < end; ++row) {
    if (!part.is_live(row)) continue;
    to.rows.append(items.rows, row);
    to.ids.push_back(items.ids[row]);
    to.attributes.push_back(items.attributes[row]);
  }
}

// Keeps parts few, and each item's moves too: the last two become one while the former is not more
// than twice the latter. Lists stay as they are.
void Index::merge_parts(const Context& context, State& state) const {
  const size_t fixed = state.centroids == nullptr ? 0 : 1;
  std::vector<Part>& parts = state.parts;
  for (size_t at = parts.size(); at-- > fixed;)
    if (parts[at].live == 0) parts.erase(parts.begin() + static_cast<int64_t>(at));
  while (parts.size() >= fixed + 2 &&
         parts[parts.size() - 2].live <= 2 * parts[parts.size() - 1].live) {
    ItemTable merged{.rows = ItemRows(settings_.dtype, settings_.dim)};
    for (size_t at = parts.size() - 2; at < parts.size(); ++at)
      append_live(parts[at], 0, parts[at].segment->count(), merged);
    parts.resize(parts.size() - 2);
    const int64_t count = merged.rows.count();
    parts.push_back(part_of(context, std::move(merged), {count}));
  }
}

void Index::add(const Context& context, const Items& items, Existing existing) {
  ItemTable table = table_of(items);
  if (table.ids.empty()) return;
  const std::lock_guard lock(writer_);
  State next = *state();
  std::vector<Found> replaced;
  for (const int64_t id : table.ids) {
    const auto found = find(next, id);
    EMBLEM_REQUIRE(!found || existing == Existing::kReplace, "item ", id,
                   " is in the index already; replace it, or give another id");
    if (found) replaced.push_back(*found);
  }
  const int64_t count = table.rows.count();
  Part part = part_of(context, std::move(table), {count});  // refuses duplicates
  remove_rows(next, replaced);
  next.parts.push_back(std::move(part));
  merge_parts(context, next);
  set_state(std::move(next));
}

void Index::remove(std::span<const int64_t> ids) {
  const std::lock_guard lock(writer_);
  State next = *state();
  std::vector<Found> rows;
  std::unordered_set<int64_t> seen;
  for (const int64_t id : ids) {
    if (!seen.insert(id).second) continue;
    const auto found = find(next, id);
    if (!found)
      throw Error(ErrorCode::kNotFound,
                  cat("item ", id, " is not in the index; nothing was removed"));
    rows.push_back(*found);
  }
  remove_rows(next, rows);
  set_state(std::move(next));
}

void Index::rebuild(const Context& context) {
  const std::lock_guard lock(writer_);
  const auto now = state();
  ItemTable all{.rows = ItemRows(settings_.dtype, settings_.dim)};
  for (const Part& part : now->parts) append_live(part, 0, part.segment->count(), all);
  set_state(built(context, std::move(all)));
}

void add_found(std::vector<ScoredItem> more, int64_t k, std::vector<ScoredItem>& all) {
  if (all.empty()) return all.swap(more);
  all.insert(all.end(), more.begin(), more.end());
  std::ranges::sort(all, [](const ScoredItem& a, const ScoredItem& b) {
    return a.id != b.id ? a.id < b.id : a.score > b.score;
  });
  const auto repeated = std::ranges::unique(all, {}, &ScoredItem::id);
  all.erase(repeated.begin(), repeated.end());
  std::sort(all.begin(), all.end());
  if (std::ssize(all) > k) all.resize(static_cast<size_t>(k));
}

}  // namespace emblem
