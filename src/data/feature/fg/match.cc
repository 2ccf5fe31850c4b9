#include <algorithm>
#include <cmath>
#include <deque>
#include <unordered_set>

#include "core/math/hidden_hash.h"
#include "data/feature/fg/cell_operator.h"
#include "data/feature/fg/discrete.h"
#include "data/feature/fg/key_values.h"

namespace emblem {
namespace {

constexpr std::string_view kAll = "ALL";

// The keys that a cell asks for.
class AskedKeys {
 public:
  void read(const CellReader& input, int64_t cell) {
    const ValueRange range = input.values(cell);
    keys_.clear();
    hashed_.clear();
    texts_.resize(std::max(texts_.size(), range.size()));
    for (size_t at = range.begin; at < range.end; ++at)
      keys_.push_back(input.text(at, texts_[at - range.begin]));
    if (keys_.size() > kScanned) hashed_.insert(keys_.begin(), keys_.end());
  }
  bool contains(std::string_view key) const {
    if (keys_.size() > kScanned) return hashed_.contains(key);
    return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
  }

 private:
  static constexpr size_t kScanned = 16;  // up to here keys are scanned, not hashed

  std::vector<std::string_view> keys_;
  std::unordered_set<std::string_view, HiddenHash> hashed_;
  std::deque<std::string> texts_;  // texts of numbers
};

// The values of a map of maps, "pk^sk:v,sk:v|pk^sk:v", at primary and secondary keys. Several
// numbers are added up.
class MatchOperator final : public CellOperator {
 public:
  explicit MatchOperator(const FeatureSpec& feature)
      : CellOperator(feature, inputs_of(feature), output_of(feature.config.match_feature())) {
    const config::MatchFeature& match = feature.config.match_feature();
    all_pkeys_ = match.pkey() == kAll;
    all_skeys_ = match.skey() == kAll;
    show_pkey_ = match.show_pkey();
    show_skey_ = match.show_skey();
    // Ids that are hashed differ between features.
    if (!match.has_num_buckets() && !has_vocabulary(match)) prefix_ = match.feature_name() + "_";
  }

 private:
  static std::vector<FgInput> inputs_of(const FeatureSpec& feature) {
    const FgInput keys{ColumnType::kText, feature.config.match_feature().separator()};
    return {{ColumnType::kText, "|"}, keys, keys};
  }
  static ColumnType output_of(const config::MatchFeature& match) {
    const bool ids = is_discrete(match) || match.show_pkey() || match.show_skey();
    return ids ? output_of_ids(match) : ColumnType::kFloat;
  }

  // What one cell asks for and has found so far.
  struct Found {
    CellWriter& out;
    AskedKeys pkeys, skeys;
    double sum = 0;
    bool has_number = false;
    std::string problem;
    std::string buffer;
  };

  void compute(std::span<const CellReader> inputs, const Cells& cells, CellWriter& out,
               const ReportRow& report) const override {
    Found found{out};
    for (int64_t cell = 0; cell < cells.count; ++cell) {
      found.sum = 0;
      found.has_number = false;
      found.problem.clear();
      found.pkeys.read(inputs[1], cell);
      found.skeys.read(inputs[2], cell);
      search(inputs[0], cell, found);
      if (!found.problem.empty())
        reject(cells.row_of(cell), out, report, found.problem);
      else if (found.has_number)
        out.add(static_cast<float>(found.sum));
      out.end_cell();
    }
  }

  void search(const CellReader& map, int64_t cell, Found& found) const {
    const ValueRange maps = map.values(cell);
    for (size_t at = maps.begin; at < maps.end && found.problem.empty(); ++at) {
      const std::string_view entry = map.text(at, found.buffer);
      std::string_view pkey, inner;
      if (entry.empty()) continue;
      if (!split_pair(entry, '^', pkey, inner))
        found.problem = cat("the map has ", in_quotes(entry), ", expected pkey^skey:value");
      else if (all_pkeys_ || found.pkeys.contains(pkey))
        search_inner(pkey, inner, found);
    }
  }

  void search_inner(std::string_view pkey, std::string_view inner, Found& found) const {
    while (!inner.empty() && found.problem.empty()) {
      const size_t end = std::min(inner.find(','), inner.size());
      const std::string_view pair = inner.substr(0, end);
      inner.remove_prefix(std::min(end + 1, inner.size()));
      std::string_view skey, value;
      if (pair.empty()) continue;
      if (!split_pair(pair, ':', skey, value))
        found.problem = cat("the map has ", in_quotes(pair), ", expected skey:value");
      else if (!value.empty() && (all_skeys_ || found.skeys.contains(skey)))
        add(pkey, skey, value, found);
    }
  }

  void add(std::string_view pkey, std::string_view skey, std::string_view value,
           Found& found) const {
    if (output() == ColumnType::kFloat) {
      float number = 0;
      if (!parse_float(value, number)) {
        found.problem = cat("the map has the value ", in_quotes(value), ", which is not a number");
      } else if (!std::isnan(number)) {
        found.sum += static_cast<double>(number);
        found.has_number = true;
      }
      return;
    }
    std::string id = prefix_;
    if (show_pkey_) id.append(pkey).append("_");
    if (show_skey_) id.append(skey).append("_");
    id += value;
    if (!found.out.add_id(id))
      found.problem = cat("the map has the value ", in_quotes(id),
                          ", which is not an integer as num_buckets expects");
  }

  std::string prefix_;
  bool all_pkeys_ = false, all_skeys_ = false;
  bool show_pkey_ = false, show_skey_ = false;
};

}  // namespace

std::unique_ptr<FgOperator> make_match(const FeatureSpec& feature) {
  return std::make_unique<MatchOperator>(feature);
}

}  // namespace emblem
