#include "shard/plan.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "emblem/error.h"

namespace emblem {
namespace {

std::string holders_text(const TableShards& table, int ranks) {
  if (table.replicated) return "replicated";
  if (table == over_all_ranks(table.table, ranks)) return "rows";
  for (int rank = 0; rank < ranks; ++rank)
    if (table == on_rank(table.table, rank, ranks)) return cat("rank ", rank);
  std::string text = "rows";
  for (const PartRange& range : table.held) text += " " + to_string(range);
  return text;
}

int parse_number(const std::string& word, const std::string& where, const char* what) {
  int number = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  EMBLEM_REQUIRE(error == std::errc() && end == word.data() + word.size() && number >= 0, where,
                 ": expected ", what, ", found '", word, "'");
  return number;
}

PartRange parse_range(const std::string& word, const std::string& where) {
  try {
    return parse_part_range(word);
  } catch (const Error& error) {
    throw Error(error.code(), cat(where, ": ", error.what()));
  }
}

TableShards parse_table(const std::vector<std::string>& words, int ranks,
                        const std::string& where) {
  const std::string& name = words[0];
  const std::string kind = words.size() > 1 ? words[1] : "";
  if (kind == "replicated" && words.size() == 2) return on_every_rank(name);
  if (kind == "rank" && words.size() == 3) {
    const int rank = parse_number(words[2], where, "the number of a rank");
    EMBLEM_REQUIRE(rank < ranks, where, ": rank ", rank, " holds table ", name, ", but there are ",
                   ranks, " ranks");
    return on_rank(name, rank, ranks);
  }
  if (kind == "rows" && words.size() == 2) return over_all_ranks(name, ranks);
  EMBLEM_REQUIRE(kind == "rows" && words.size() == 2 + static_cast<size_t>(ranks), where,
                 ": table ", name, " needs 'rows', 'rows' with the parts of each of ", ranks,
                 " ranks, 'rank N' or 'replicated'");
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
  for (const TableShards& table : plan.tables)
    text += cat(table.table, " ", holders_text(table, plan.ranks), "\n");
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
      plan.ranks = parse_number(words[1], where, "a number of ranks");
      EMBLEM_REQUIRE(plan.ranks >= 1 && plan.ranks <= kParts, where, ": ", plan.ranks,
                     " ranks, expected 1 to ", kParts);
      continue;
    }
    plan.tables.push_back(parse_table(words, plan.ranks, where));
  }
  EMBLEM_REQUIRE(plan.ranks > 0, path, ": no plan: it begins with 'ranks N'");
  return plan;
}

}  // namespace emblem
