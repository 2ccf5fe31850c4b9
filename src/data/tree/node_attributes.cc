#include "data/tree/node_attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

bool is_less(const std::string& a, const std::string& b) {
  const auto x = parse_number<int64_t>(a), y = parse_number<int64_t>(b);
  return x && y ? *x < *y : a < b;
}

// Calls of_node(first leaf, end of leaves) for the nodes that are no items; appends the items.
template <class OfNode>
std::vector<std::string> texts_of_nodes(const ItemTree& tree, std::vector<std::string> of_items,
                                        const OfNode& of_node) {
  EMBLEM_REQUIRE(std::ssize(of_items) == tree.leaves().count(), of_items.size(),
                 " attributes of items, expected ", tree.leaves().count());
  const std::vector<ItemTree::Nodes> below = tree.leaves_of_nodes();
  const int32_t first = tree.leaves().begin;
  std::vector<std::string> texts;
  for (int32_t node = 0; node < first; ++node)
    texts.push_back(of_node(static_cast<size_t>(below[static_cast<size_t>(node)].begin - first),
                            static_cast<size_t>(below[static_cast<size_t>(node)].end - first)));
  std::ranges::move(of_items, std::back_inserter(texts));
  return texts;
}

// Missing: NaN.
std::vector<double> numbers_in(const std::vector<std::string>& texts, const std::string& what) {
  std::vector<double> numbers;
  for (const std::string& text : texts) {
    const auto number = text.empty() ? std::optional(std::nan("")) : parse_number<double>(text);
    EMBLEM_REQUIRE(number.has_value(), what, " is \"", printable(text), "\", expected a number");
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace

std::vector<std::string> modes_of_nodes(const ItemTree& tree, std::vector<std::string> of_items) {
  std::vector<std::string> values = of_items;
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  const auto place_of = [&](const std::string& text) {
    return static_cast<size_t>(std::ranges::lower_bound(values, text) - values.begin());
  };
  std::vector<size_t> places;
  for (const std::string& text : of_items) places.push_back(place_of(text));
  std::vector<int64_t> counts(values.size());
  return texts_of_nodes(tree, std::move(of_items), [&](size_t begin, size_t end) {
    std::string best;
    int64_t most = 0;
    for (size_t leaf = begin; leaf < end; ++leaf) ++counts[places[leaf]];
    for (size_t leaf = begin; leaf < end; ++leaf) {
      const int64_t count = std::exchange(counts[places[leaf]], 0);
      const std::string& value = values[places[leaf]];
      if (value.empty() || count < most || (count == most && !is_less(value, best))) continue;
      best = value;
      most = count;
    }
    return best;
  });
}

std::vector<std::string> means_of_nodes(const ItemTree& tree, std::vector<std::string> of_items,
                                        const std::string& what) {
  const std::vector<double> numbers = numbers_in(of_items, what);
  const bool whole = std::ranges::all_of(of_items, [](const std::string& text) {
    return text.empty() || parse_number<int64_t>(text);
  });
  return texts_of_nodes(tree, std::move(of_items), [&](size_t begin, size_t end) -> std::string {
    double sum = 0;
    int64_t count = 0;
    for (size_t leaf = begin; leaf < end; ++leaf) {
      if (std::isnan(numbers[leaf])) continue;
      sum += numbers[leaf];
      ++count;
    }
    if (count == 0) return "";
    const double mean = sum / static_cast<double>(count);
    return whole ? fmt::format("{:.0f}", std::nearbyint(mean)) : fmt::format("{}", mean);
  });
}

}  // namespace emblem
