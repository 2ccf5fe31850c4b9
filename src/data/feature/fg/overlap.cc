#include "data/feature/fg/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/math/hidden_hash.h"
#include "core/text/text.h"
#include "data/feature/fg/cell_operator.h"

namespace emblem {
namespace {

using Terms = std::span<const std::string_view>;

constexpr std::pair<const char*, OverlapMethod> kMethods[] = {
    {"query_common_ratio", OverlapMethod::kQueryCommonRatio},
    {"title_common_ratio", OverlapMethod::kTitleCommonRatio},
    {"is_contain", OverlapMethod::kIsContain},
    {"is_equal", OverlapMethod::kIsEqual},
    {"index_of", OverlapMethod::kIndexOf},
    {"proximity_min_cover", OverlapMethod::kProximityMinCover},
    {"proximity_min_dist", OverlapMethod::kProximityMinDist},
    {"proximity_max_dist", OverlapMethod::kProximityMaxDist},
    {"proximity_avg_dist", OverlapMethod::kProximityAvgDist},
};

// The share of `terms` that `others` have.
double common_ratio(Terms terms, Terms others) {
  const std::unordered_set<std::string_view, HiddenHash> known(others.begin(), others.end());
  const auto common = std::count_if(terms.begin(), terms.end(),
                                    [&](std::string_view term) { return known.contains(term); });
  return static_cast<double>(common) / static_cast<double>(terms.size());
}

// In linear time (Knuth, Morris, Pratt): texts are as long as clients make them.
double index_of(Terms query, Terms title) {
  std::vector<size_t> shorter(query.size(), 0);  // the longest end of a beginning that begins it
  const auto next = [&](size_t length, std::string_view term) {
    while (length > 0 && query[length] != term) length = shorter[length - 1];
    return query[length] == term ? length + 1 : length;
  };
  for (size_t i = 1; i < query.size(); ++i) shorter[i] = next(shorter[i - 1], query[i]);
  size_t length = 0;  // terms of the query at the end of what was read of the title
  for (size_t i = 0; i < title.size(); ++i) {
    length = next(length, title[i]);
    if (length == query.size()) return static_cast<double>(i + 1 - length);
  }
  return -1.0;
}

// A window over the title that grows at its end and shrinks at its begin.
double min_cover(Terms query, Terms title) {
  std::unordered_map<std::string_view, int64_t, HiddenHash> wanted;
  for (const std::string_view term : query) wanted.emplace(term, 0);
  size_t found = 0, begin = 0, best = 0;
  for (size_t end = 0; end < title.size(); ++end) {
    const auto last = wanted.find(title[end]);
    if (last == wanted.end()) continue;
    found += last->second++ == 0;
    while (found == wanted.size()) {
      const size_t length = end + 1 - begin;
      best = best == 0 ? length : std::min(best, length);
      const auto first = wanted.find(title[begin++]);
      if (first != wanted.end()) found -= --first->second == 0;
    }
  }
  return static_cast<double>(best);
}

// The least distance between an occurrence of one and of the other; both ascend.
int64_t distance_between(std::span<const int64_t> a, std::span<const int64_t> b) {
  int64_t least = INT64_MAX;
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    least = std::min(least, std::abs(a[i] - b[k]));
    if (a[i] < b[k])
      ++i;
    else
      ++k;
  }
  return least;
}

double proximity(OverlapMethod method, Terms query, Terms title) {
  std::unordered_map<std::string_view, std::vector<int64_t>, HiddenHash> terms;
  for (const std::string_view term : query) terms.try_emplace(term);
  for (size_t i = 0; i < title.size(); ++i) {
    const auto found = terms.find(title[i]);
    if (found != terms.end()) found->second.push_back(static_cast<int64_t>(i));
  }
  std::vector<std::span<const int64_t>> places;  // places of the terms that are found
  for (const auto& [term, found] : terms)
    if (!found.empty()) places.emplace_back(found);
  if (places.empty()) return static_cast<double>(title.size() + 1);
  if (places.size() == 1) return terms.size() == 1 ? 0.0 : static_cast<double>(title.size());
  int64_t least = INT64_MAX, most = 0, sum = 0, pairs = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    for (size_t k = i + 1; k < places.size(); ++k, ++pairs) {
      const int64_t distance = distance_between(places[i], places[k]);
      least = std::min(least, distance);
      most = std::max(most, distance);
      sum += distance;
    }
  }
  if (method == OverlapMethod::kProximityMinDist) return static_cast<double>(least);
  if (method == OverlapMethod::kProximityMaxDist) return static_cast<double>(most);
  return static_cast<double>(sum) / static_cast<double>(pairs);
}

// A cell without query or title has no value; its default is 0.
class OverlapOperator final : public CellOperator {
 public:
  explicit OverlapOperator(const FeatureSpec& feature)
      : CellOperator(feature,
                     std::vector<FgInput>(
                         2, {ColumnType::kText, feature.config.overlap_feature().separator()}),
                     ColumnType::kFloat),
        method_(parse_overlap_method(feature.config.overlap_feature().method(), feature.name)) {}

 private:
  // Distances are measured between all pairs of terms, and to all places of both.
  static constexpr size_t kMostTerms = 1000, kMostPairs = 100'000;

  void compute(std::span<const CellReader> inputs, const Cells& cells, CellWriter& out,
               const ReportRow& report) const override {
    std::vector<std::string_view> query, title;
    std::vector<std::string> query_texts, title_texts;
    for (int64_t cell = 0; cell < cells.count; ++cell) {
      if (!inputs[0].is_repeated(cell)) read(inputs[0], cell, query, query_texts);
      read(inputs[1], cell, title, title_texts);
      const bool both = !query.empty() && !title.empty();
      if (measures_distances() && are_too_many(query.size(), title.size())) {
        reject(cells.row_of(cell), out, report, "query and title have ", query.size(), " and ",
               title.size(), " terms, expected at most ", kMostTerms, " of one of them and ",
               kMostPairs, " pairs");
        out.end_cell();
        continue;
      }
      out.add(both ? static_cast<float>(overlap_of(method_, query, title)) : 0.0f);
      out.end_cell();
    }
  }

  // `texts` holds what is not text in the column.
  static void read(const CellReader& input, int64_t cell, std::vector<std::string_view>& terms,
                   std::vector<std::string>& texts) {
    const ValueRange range = input.values(cell);
    terms.clear();
    texts.resize(std::max(texts.size(), range.size()));
    for (size_t at = range.begin; at < range.end; ++at)
      terms.push_back(input.text(at, texts[at - range.begin]));
  }

  static bool are_too_many(size_t query, size_t title) {
    return std::min(query, title) > kMostTerms || (title > 0 && query > kMostPairs / title);
  }
  bool measures_distances() const {
    return method_ == OverlapMethod::kProximityMinDist ||
           method_ == OverlapMethod::kProximityMaxDist ||
           method_ == OverlapMethod::kProximityAvgDist;
  }

  OverlapMethod method_;
};

}  // namespace

OverlapMethod parse_overlap_method(const std::string& text, const std::string& feature) {
  std::string list;
  for (const auto& [name, method] : kMethods) {
    if (text == name) return method;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  throw Error(ErrorCode::kInvalidArgument, cat("feature \"", feature, "\": method is \"",
                                               printable(text), "\", expected one of ", list));
}

double overlap_of(OverlapMethod method, Terms query, Terms title) {
  switch (method) {
    case OverlapMethod::kQueryCommonRatio:
      return common_ratio(query, title);
    case OverlapMethod::kTitleCommonRatio:
      return common_ratio(title, query);
    case OverlapMethod::kIsContain:
      return index_of(query, title) >= 0 ? 1.0 : 0.0;
    case OverlapMethod::kIsEqual:
      return std::equal(query.begin(), query.end(), title.begin(), title.end()) ? 1.0 : 0.0;
    case OverlapMethod::kIndexOf:
      return index_of(query, title);
    case OverlapMethod::kProximityMinCover:
      return min_cover(query, title);
    default:
      break;
  }
  return proximity(method, query, title);
}

std::unique_ptr<FgOperator> make_overlap(const FeatureSpec& feature) {
  return std::make_unique<OverlapOperator>(feature);
}

}  // namespace emblem
