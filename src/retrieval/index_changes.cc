// Changes of an Index. Searches see each as a whole: a change makes another State.
//
// A part that was added is merged with others, so that parts stay few: small ones by the call that
// adds, large ones by a thread of the index, which a search never waits for.
#include <algorithm>
#include <unordered_set>

#include "core/system/caught_error.h"
#include "core/text/text.h"
#include "core/threads/start_thread.h"
#include "emblem/error.h"
#include "retrieval/index.h"

namespace emblem {
namespace {

// Items that the call that adds merges: about a millisecond.
constexpr int64_t kMergedAtOnce = 4096;

}  // namespace

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

Index::Part Index::merged(const Context& context, const Part& first, const Part& second) const {
  ItemTable items{.rows = ItemRows(settings_.dtype, settings_.dim)};
  for (const Part* part : {&first, &second}) append_live(*part, 0, part->segment->count(), items);
  const int64_t count = items.rows.count();
  return part_of(context, std::move(items), {count});
}

// The first of two parts to merge: parts are few, and each item's moves too, where none has at most
// twice the items of the next one. Lists stay as they are.
std::optional<size_t> Index::part_to_merge(const State& state) {
  const size_t fixed = state.centroids == nullptr ? 0 : 1;
  for (size_t at = state.parts.size(); at-- > fixed + 1;)
    if (state.parts[at - 1].live <= 2 * state.parts[at].live) return at - 1;
  return std::nullopt;
}

// Merges parts at the end while they have at most `most` items together.
void Index::merge_parts(const Context& context, State& state, int64_t most) const {
  const size_t fixed = state.centroids == nullptr ? 0 : 1;
  std::vector<Part>& parts = state.parts;
  for (size_t at = parts.size(); at-- > fixed;)
    if (parts[at].live == 0) parts.erase(parts.begin() + static_cast<int64_t>(at));
  while (parts.size() >= fixed + 2) {
    Part &first = parts[parts.size() - 2], &second = parts[parts.size() - 1];
    if (first.live > 2 * second.live || first.live + second.live > most) return;
    first = merged(context, first, second);
    parts.pop_back();
  }
}

// Starts the thread that merges large parts, if there are any. writer_ is held.
void Index::merge_later() {
  if (is_merging_ || !part_to_merge(*state())) return;
  if (merger_.joinable()) merger_.join();  // it has let go of writer_ for good
  try {
    merger_ = start_thread("merging segments of an index", [this] { merge_large_parts(); });
    is_merging_ = true;
  } catch (...) {
    debug_caught("merging segments of an index");  // the next change tries again
  }
}

void Index::merge_large_parts() {
  try {
    for (;;) {
      Part first, second;
      {
        const std::lock_guard lock(writer_);
        const auto now = state();
        const auto at = part_to_merge(*now);
        if (is_ending_ || !at) {
          is_merging_ = false;
          return;
        }
        first = now->parts[*at];
        second = now->parts[*at + 1];
      }
      replace_merged(first, second, merged({}, first, second));
    }
  } catch (...) {
    log_caught("merging segments of an index");
    const std::lock_guard lock(writer_);
    is_merging_ = false;
  }
}

// Puts `part`, merged of two, in their place, without what has been removed meanwhile. A change may
// have merged one of them with others, or rebuilt all: then they stay as they are.
void Index::replace_merged(const Part& first, const Part& second, Part part) {
  const std::lock_guard lock(writer_);
  State next = *state();
  const auto at = std::ranges::find(next.parts, first.segment, &Part::segment);
  if (at == next.parts.end() || at + 1 == next.parts.end() || (at + 1)->segment != second.segment)
    return;
  std::vector<int64_t> gone;
  for (const auto& [before, now] : {std::pair{&first, &*at}, std::pair{&second, &*(at + 1)}})
    for (int64_t row = 0; now->removed != before->removed && row < now->segment->count(); ++row)
      if (before->is_live(row) && !now->is_live(row))
        gone.push_back(now->segment->items().ids[row]);
  *at = std::move(part);
  const auto place = static_cast<size_t>(at - next.parts.begin());
  next.parts.erase(at + 1);
  std::vector<Found> rows;
  for (const int64_t id : gone) rows.push_back({place, *next.parts[place].segment->find(id)});
  remove_rows(next, rows);
  set_state(std::move(next));
}

int64_t Index::add(const Context& context, const Items& items, Existing existing) {
  ItemTable table = table_of(items);
  if (table.ids.empty()) return changes();
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
  // Contexts of a GPU are those of calls: these merge all.
  merge_parts(context, next, context.device == Device::kCpu ? kMergedAtOnce : INT64_MAX);
  const int64_t change = ++next.changes;
  set_state(std::move(next));
  merge_later();
  return change;
}

int64_t Index::remove(std::span<const int64_t> ids) {
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
  if (rows.empty()) return next.changes;
  remove_rows(next, rows);
  const int64_t change = ++next.changes;
  set_state(std::move(next));
  return change;
}

void Index::rebuild(const Context& context) {
  const std::lock_guard lock(writer_);
  const auto now = state();
  ItemTable all{.rows = ItemRows(settings_.dtype, settings_.dim)};
  for (const Part& part : now->parts) append_live(part, 0, part.segment->count(), all);
  State next = built(context, std::move(all));
  next.changes = now->changes;
  set_state(std::move(next));
}

}  // namespace emblem
