#include "shard/table_shards.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "embedding/bins.h"
#include "emblem/error.h"

namespace emblem {
namespace {

std::string holders_text(const TableShards& table, int ranks) {
  if (table.replicated) return "replicated";
  if (!table.columns.empty()) {
    std::string text = cat("columns ", table.columns.size());
    for (const int rank : table.columns) text += cat(" ", rank);
    return text;
  }
  if (table.held == over_all_ranks(table.table, ranks).held) return "rows";
  for (int rank = 0; rank < ranks; ++rank)
    if (table.held == on_rank(table.table, rank, ranks).held) return cat("rank ", rank);
  std::string text = "rows";
  for (const PartRange& range : table.held) text += cat(" ", to_string(range));
  return text;
}

// A replicated table is read where it is needed.
bool one_has_all_rows(const TableShards& table) {
  return std::any_of(table.held.begin(), table.held.end(),
                     [](const PartRange& held) { return held.is_everything(); });
}

int number_in(const std::string& word, const std::string& where, const char* what) {
  const int number = parse_number<int>(word).value_or(-1);
  EMBLEM_REQUIRE(number >= 0, where, ": expected ", what, ", found '", word, "'");
  return number;
}

double parse_milliseconds(const std::vector<std::string>& words, const std::string& where) {
  double value = 0;
  if (words.size() == 2) std::from_chars(words[1].data(), words[1].data() + words[1].size(), value);
  EMBLEM_REQUIRE(value > 0, where, ": expected 'predicted_ms' and a positive number");
  return value;
}

PartRange parse_range(const std::string& word, const std::string& where) {
  try {
    if (word.find('/') == std::string::npos) return parse_part_range(word);
  } catch (const Error&) {
  }
  throw Error(ErrorCode::kInvalidArgument,
              cat(where, ": parts '", printable(word), "': expected FIRST-LAST, both from 0 to ",
                  kParts - 1, ", as in 0-1364, or none"));
}

int parse_rank(const std::string& word, int ranks, const std::string& table,
               const std::string& where) {
  const int rank = number_in(word, where, "the number of a rank");
  EMBLEM_REQUIRE(rank < ranks, where, ": rank ", rank, " holds table ", table, ", but there are ",
                 ranks, " ranks");
  return rank;
}

TableShards parse_columns(const std::vector<std::string>& words, int ranks,
                          const std::string& where) {
  const int slices = number_in(words[2], where, "a number of slices");
  EMBLEM_REQUIRE(slices > 0 && words.size() == 3 + static_cast<size_t>(slices), where, ": table ",
                 words[0], " has ", slices, " slices of columns on ", words.size() - 3,
                 " ranks; name a rank for each slice");
  std::vector<int> holders;
  for (size_t i = 3; i < words.size(); ++i) {
    holders.push_back(parse_rank(words[i], ranks, words[0], where));
    EMBLEM_REQUIRE(std::count(holders.begin(), holders.end(), holders.back()) == 1, where,
                   ": rank ", holders.back(), " has two slices of table ", words[0],
                   "; name every rank once");
  }
  return by_columns(words[0], holders, ranks);
}

TableShards parse_holders(const std::vector<std::string>& words, int ranks,
                          const std::string& where) {
  const std::string& name = words[0];
  const std::string kind = words.size() > 1 ? words[1] : "";
  if (kind == "replicated" && words.size() == 2) return on_every_rank(name);
  if (kind == "rank" && words.size() == 3)
    return on_rank(name, parse_rank(words[2], ranks, name, where), ranks);
  if (kind == "columns" && words.size() > 3) return parse_columns(words, ranks, where);
  if (kind == "rows" && words.size() == 2) return over_all_ranks(name, ranks);
  EMBLEM_REQUIRE(kind == "rows" && words.size() == 2 + static_cast<size_t>(ranks), where,
                 ": table ", name, " needs 'rows', 'rows' with the parts of each of ", ranks,
                 " ranks, 'rank N', 'columns' with their number and ranks, or 'replicated'");
  TableShards table{.table = name};
  int32_t next = 0;
  for (size_t i = 2; i < words.size(); ++i) {
    PartRange range{next, next};
    if (words[i] != "none") range = parse_range(words[i], where);
    EMBLEM_REQUIRE(range.first == next, where, ": the parts of table ", name, " are ", words[i],
                   " where part ", next, " is next; parts are in the order of ranks");
    table.held.push_back(range);
    next = range.last;
  }
  EMBLEM_REQUIRE(next == kParts, where, ": no rank holds parts ", next, " to ", kParts - 1,
                 " of table ", name);
  return table;
}

TableShards parse_table(std::vector<std::string> words, int ranks, const std::string& where) {
  const bool pooled = words.size() > 2 && words[words.size() - 2] == "pooled";
  if (!pooled) return parse_holders(words, ranks, where);
  EMBLEM_REQUIRE(words.back() == "owner" || words.back() == "requester", where,
                 ": bags are pooled at 'owner' or 'requester', found '", words.back(), "'");
  const bool at_owner = words.back() == "owner";
  words.resize(words.size() - 2);
  TableShards table = parse_holders(words, ranks, where);
  EMBLEM_REQUIRE(!at_owner || one_has_all_rows(table), where, ": table ", table.table,
                 " cannot be pooled at its owner: no rank has all keys of a bag; use 'rank N' or "
                 "'columns'");
  table.pooled_at_owner = at_owner;
  return table;
}

}  // namespace

const TableShards& ShardPlan::of(const std::string& table) const {
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [&](const TableShards& each) { return each.table == table; });
  if (found != tables.end()) return *found;
  throw Error(ErrorCode::kInvalidArgument,
              cat("the plan (train_config.plan_path) has no table ", table, "; add a line for it"));
}

TableShards over_all_ranks(const std::string& table, int ranks) {
  TableShards shards{.table = table};
  for (int rank = 0; rank < ranks; ++rank) shards.held.push_back(part_range_of(rank, ranks));
  return shards;
}

TableShards on_rank(const std::string& table, int rank, int ranks) {
  TableShards shards{.table = table};
  for (int r = 0; r < ranks; ++r)
    shards.held.push_back(r < rank ? PartRange{0, 0} : PartRange{r == rank ? 0 : kParts, kParts});
  return shards;
}

TableShards by_columns(const std::string& table, const std::vector<int>& holders, int ranks) {
  TableShards shards{.table = table};
  for (int r = 0; r < ranks; ++r) {
    const bool holds = std::find(holders.begin(), holders.end(), r) != holders.end();
    shards.held.push_back(holds ? PartRange{} : PartRange{0, 0});
  }
  shards.columns = holders;
  return shards;
}

TableShards in_whole_bins(TableShards shards, int32_t bins) {
  if (bins == 0 || shards.replicated) return shards;
  const auto ranks = static_cast<int>(shards.held.size());
  const int32_t each = kParts / bins;
  if (shards.held == over_all_ranks(shards.table, ranks).held) {
    for (int r = 0; r < ranks; ++r)
      shards.held[static_cast<size_t>(r)] = {r * bins / ranks * each,
                                             (r + 1) * bins / ranks * each};
    return shards;
  }
  for (const PartRange held : shards.held)
    EMBLEM_REQUIRE(is_whole_bins(held, bins), "the plan (train_config.plan_path) gives parts ",
                   to_string(held), " of table ", shards.table,
                   " to a rank, but it evicts keys in bins of ", each,
                   " parts, which are on one rank each; cut it at multiples of ", each,
                   ", or use 'rows' alone or 'rank N'");
  return shards;
}

TableShards on_every_rank(const std::string& table) { return {.table = table, .replicated = true}; }

void check_plan_ranks(const ShardPlan& plan, int ranks) {
  EMBLEM_REQUIRE(plan.ranks == ranks, "the plan (train_config.plan_path) is for ", plan.ranks,
                 " ranks, but there are ", ranks, "; start ", plan.ranks, ", or give another plan");
}

void check_plan(const ShardPlan& plan, int ranks, const std::vector<std::string>& tables) {
  check_plan_ranks(plan, ranks);
  std::set<std::string> names;
  for (const TableShards& table : plan.tables) {
    EMBLEM_REQUIRE(names.insert(table.table).second,
                   "the plan (train_config.plan_path) names table ", table.table,
                   " twice; remove one of the lines");
    EMBLEM_REQUIRE(std::find(tables.begin(), tables.end(), table.table) != tables.end(),
                   "the plan (train_config.plan_path) has table ", table.table,
                   ", which the model does not have; remove its line");
  }
  for (const std::string& table : tables) plan.of(table);
}

std::string to_text(const ShardPlan& plan) {
  std::string text = cat("ranks ", plan.ranks, "\n");
  if (plan.predicted_ms > 0) text += cat("predicted_ms ", plan.predicted_ms, "\n");
  for (const TableShards& table : plan.tables)
    text += cat(table.table, " ", holders_text(table, plan.ranks),
                table.pooled_at_owner ? " pooled owner" : "", "\n");
  return text;
}

ShardPlan parse_plan(const std::string& text, const std::string& path) {
  ShardPlan plan{.ranks = 0};
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = cat(path, ":", ++number);
    std::istringstream stream(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.empty()) continue;
    if (plan.ranks == 0) {
      EMBLEM_REQUIRE(words.size() == 2 && words[0] == "ranks", where,
                     ": a plan begins with 'ranks N'");
      plan.ranks = number_in(words[1], where, "a number of ranks");
      EMBLEM_REQUIRE(plan.ranks >= 1 && plan.ranks <= kParts, where, ": ", plan.ranks,
                     " ranks, expected 1 to ", kParts);
      continue;
    }
    if (words[0] == "predicted_ms" && plan.tables.empty()) {
      plan.predicted_ms = parse_milliseconds(words, where);
      continue;
    }
    plan.tables.push_back(parse_table(words, plan.ranks, where));
  }
  EMBLEM_REQUIRE(plan.ranks > 0, path, ": not a plan: it begins with 'ranks N'");
  return plan;
}

}  // namespace emblem
