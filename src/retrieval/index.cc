#include "retrieval/index.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

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

}  // namespace

Index::Index(const IndexSettings& settings)
    : settings_(settings),
      kernel_(kernel_for(settings.scan)),
      state_(std::make_shared<const State>()) {
  EMBLEM_REQUIRE(settings.dim >= 1 && settings.dim <= kMostDim, "an index cannot have a dim of ",
                 settings.dim, "; it is from 1 to ", kMostDim);
  EMBLEM_REQUIRE(settings.lists >= 0, "an index cannot have ", settings.lists, " lists");
  EMBLEM_REQUIRE(settings.probes >= 1, "probes is ", settings.probes, "; it must be at least 1");
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

std::unique_ptr<Index> Index::build(const Context& context, const IndexSettings& settings,
                                    const Items& items, const ItemLists& lists) {
  auto index = std::make_unique<Index>(settings);
  EMBLEM_REQUIRE(settings.kind == IndexKind::kIvfFlat, "an index with lists is an ivf_flat");
  index->require_device(context);
  const int64_t count = std::ssize(lists.lengths);
  EMBLEM_REQUIRE(lists.centroids.rows == count, "there are ", lists.centroids.rows,
                 " centroids for ", count, " lists");
  EMBLEM_REQUIRE(lists.centroids.cols == settings.dim, "centroids have ", lists.centroids.cols,
                 " elements, but vectors of this index have ", settings.dim);
  int64_t listed = 0;
  for (const int64_t length : lists.lengths) listed += length;
  EMBLEM_REQUIRE(listed == std::ssize(items.ids), "the lists have ", listed, " items, not ",
                 items.ids.size());
  index->settings_.lists = count;
  Contents contents{.items = index->table_of(items),
                    .lists = {lists.lengths.begin(), lists.lengths.end()},
                    .centroids = ItemRows(DType::kF32, settings.dim)};
  for (int64_t list = 0; list < count; ++list) {
    const std::span centroid(lists.centroids.row(list), static_cast<size_t>(settings.dim));
    EMBLEM_REQUIRE(length_of(centroid) <= kLongestVector, "the centroid of list ", list,
                   " has NaN, infinite or too large elements");
    contents.centroids.append(centroid);
  }
  index->set_state(index->state_of(context, std::move(contents)));
  return index;
}

Index::~Index() {
  {
    const std::lock_guard lock(writer_);
    is_ending_ = true;
  }
  if (merger_.joinable()) merger_.join();
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

int64_t Index::lists() const {
  const auto now = state();
  return now->centroids == nullptr ? 0 : now->centroids->count();
}

int64_t Index::memory_bytes() const {
  const auto now = state();
  int64_t bytes = now->centroids == nullptr ? 0 : now->centroids->memory_bytes();
  for (const Part& part : now->parts) bytes += part.segment->memory_bytes();
  return bytes;
}

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
  state.bounds =
      std::make_shared<const ListBounds>(context, *state.parts[0].segment, *state.centroids);
  return state;
}

std::optional<Index::Found> Index::find(const State& state, int64_t id) {
  for (size_t part = 0; part < state.parts.size(); ++part) {
    const auto row = state.parts[part].segment->find(id);
    if (row && state.parts[part].is_live(*row)) return Found{part, *row};
  }
  return std::nullopt;
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
