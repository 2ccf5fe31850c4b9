// What an index holds, as files have it, and an index that holds it.
#include "emblem/error.h"
#include "retrieval/index.h"

namespace emblem {
namespace {

ItemTable part_of_items(const ItemTable& items, int64_t begin, int64_t end) {
  ItemTable part{.rows = ItemRows(items.rows.type(), items.rows.dim()),
                 .ids = {items.ids.begin() + begin, items.ids.begin() + end},
                 .attributes = {items.attributes.begin() + begin, items.attributes.begin() + end}};
  part.rows.reserve(end - begin);
  for (int64_t row = begin; row < end; ++row) part.rows.append(items.rows, row);
  return part;
}

}  // namespace

Index::Contents Index::contents() const {
  const auto now = state();
  Contents all{.items = {.rows = ItemRows(settings_.dtype, settings_.dim)}};
  const bool has_lists = now->centroids != nullptr;
  for (size_t at = 0; at < now->parts.size(); ++at) {
    for (const ItemList& list : now->parts[at].segment->lists()) {
      const int64_t before = all.items.rows.count();
      append_live(now->parts[at], list.first, list.first + list.count, all.items);
      if (at == 0 && has_lists) all.lists.push_back(all.items.rows.count() - before);
    }
  }
  if (has_lists) all.centroids = now->centroids->items().rows;
  return all;
}

// `contents` are checked, except for duplicate ids.
Index::State Index::state_of(const Context& context, Contents contents) const {
  State state;
  ItemTable& items = contents.items;
  const int64_t count = items.rows.count();
  if (contents.lists.empty()) {
    if (count > 0) state.parts.push_back(part_of(context, std::move(items), {count}));
    return state;
  }
  const int64_t centroids = std::ssize(contents.lists);
  int64_t listed = 0;
  for (const int64_t length : contents.lists) listed += length;
  ItemTable table{.rows = std::move(contents.centroids)};
  for (int64_t i = 0; i < centroids; ++i) table.ids.push_back(i);
  table.attributes.resize(static_cast<size_t>(centroids));
  state.centroids = part_of(context, std::move(table), {centroids}).segment;
  state.parts.push_back(
      part_of(context, part_of_items(items, 0, listed), std::move(contents.lists)));
  const ItemSegment& in_lists = *state.parts[0].segment;
  state.bounds = std::make_shared<const ListBounds>(context, in_lists, *state.centroids);
  for (int64_t i = listed; i < count; ++i)
    EMBLEM_REQUIRE(!in_lists.find(items.ids[i]), "item ", items.ids[i], " is there twice");
  if (listed < count)
    state.parts.push_back(part_of(context, part_of_items(items, listed, count), {count - listed}));
  return state;
}

}  // namespace emblem
