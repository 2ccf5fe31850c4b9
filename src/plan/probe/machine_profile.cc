#include "plan/probe/machine_profile.h"

#include <algorithm>
#include <set>

#include "core/text/json_error.h"
#include "core/text/json_field.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Json = JsonField::Json;
constexpr int kFormat = 2;

Json to_value(const Curve& curve) {
  Json points = Json::array();
  for (const CurvePoint& point : curve.points()) points.push_back({point.size, point.seconds});
  return points;
}

Json to_value(const KernelCurves& curves) {
  Json levels = Json::array();
  for (const KernelCurves::Level& level : curves.levels())
    levels.push_back({{"table_bytes", level.table_bytes},
                      {"distinct_share", level.distinct_share},
                      {"seconds_by_requests", to_value(level.curve)}});
  return levels;
}

using Field = JsonField;

Curve curve_of(const Field& field) {
  std::vector<CurvePoint> points;
  for (size_t i = 0; i < field.size(); ++i) {
    if (field[i].size() != 2) field[i].refuse("[size, seconds]");
    points.push_back({field[i][size_t{0}].number(0), field[i][size_t{1}].number(0)});
  }
  if (points.empty()) field.refuse("at least one measurement");
  return Curve(std::move(points));
}

KernelCurves kernel_of(const Field& field) {
  std::vector<KernelCurves::Level> levels;
  for (size_t i = 0; i < field.size(); ++i)
    levels.push_back({field[i]["table_bytes"].number(1), field[i]["distinct_share"].number(0),
                      curve_of(field[i]["seconds_by_requests"])});
  if (levels.empty()) field.refuse("at least one size of a table");
  return KernelCurves(std::move(levels));
}

TableCosts table_of(const Field& field) {
  TableCosts costs;
  costs.table = {field["dim"].integer(1), field["dtype"].text(), field["rule"].text(),
                 field["dynamic"].flag()};
  costs.gather = kernel_of(field["gather"]);
  costs.update = kernel_of(field["update"]);
  costs.requests = curve_of(field["requests_by_lookups"]);
  costs.sums = curve_of(field["sums_by_lookups"]);
  costs.gather_alone_share = field["gather_alone_share"].number(0);
  costs.update_alone_share = field["update_alone_share"].number(0);
  costs.bytes_per_row = field["bytes_a_row"].number(0);
  return costs;
}

StepCosts steps_of(const Field& field) {
  StepCosts steps{.shards = field["shards"].integer(1)};
  const Field held = field["held"];
  for (size_t i = 0; i < held.size(); ++i) {
    const Field name = held[i]["holding"];
    const std::optional<Holding> holding = parse_holding(name.text());
    if (!holding) name.refuse("a way to hold a table, as \"rows\"");
    steps.held.push_back(
        {{*holding, held[i]["every_second"].flag(), held[i]["most_keys"].number(0)},
         curve_of(held[i]["seconds_by_rows"])});
  }
  return steps;
}

std::vector<MemoryPool> pools_of(const Field& field, int ranks) {
  std::vector<MemoryPool> pools;
  std::set<int64_t> seen;
  for (size_t i = 0; i < field.size(); ++i) {
    MemoryPool& pool = pools.emplace_back();
    pool.free_bytes = field[i]["free_bytes"].integer(0);
    const Field members = field[i]["ranks"];
    for (size_t r = 0; r < members.size(); ++r) {
      const int64_t rank = members[r].integer(0);
      if (rank >= ranks || !seen.insert(rank).second)
        members[r].refuse(cat("each of ranks 0 to ", ranks - 1, " once"));
      pool.ranks.push_back(static_cast<int>(rank));
    }
  }
  if (static_cast<int>(seen.size()) != ranks) field.refuse(cat("all of ", ranks, " ranks"));
  return pools;
}

}  // namespace

const StepCosts::Held* StepCosts::find(Holding holding, bool every_second) const {
  for (const Held& each : held)
    if (each.tables.holding == holding && each.tables.every_second == every_second) return &each;
  return nullptr;
}

TableClass class_of(const TableSettings& settings) {
  return {settings.dim, name_of(settings.dtype), name_of(settings.rule),
          settings.kind == TableKind::kDynamic};
}

std::string to_text(const TableClass& table) {
  return cat("dim ", table.dim, ", ", table.dtype, ", ", table.rule, ", ",
             table.is_dynamic ? "dynamic" : "static");
}

const TableCosts& MachineProfile::costs_of(const TableSettings& settings) const {
  const TableClass wanted = class_of(settings);
  for (const TableCosts& costs : tables)
    if (costs.table == wanted) return costs;
  throw Error(ErrorCode::kInvalidArgument,
              cat("the probe has no tables like ", settings.name, " (", to_text(wanted),
                  "); run emblem probe with this pipeline"));
}

std::pair<const TableCosts*, const TableCosts*> MachineProfile::costs_around(
    const TableSettings& settings, int64_t dim) const {
  const TableClass whole = costs_of(settings).table;
  const TableCosts *below = nullptr, *above = nullptr;
  for (const TableCosts& costs : tables) {
    TableClass like = whole;
    like.dim = costs.table.dim;
    if (!(costs.table == like)) continue;
    if (like.dim <= dim && (below == nullptr || like.dim > below->table.dim)) below = &costs;
    if (like.dim >= dim && (above == nullptr || like.dim < above->table.dim)) above = &costs;
  }
  return {below != nullptr ? below : above, above != nullptr ? above : below};
}

std::string to_json(const MachineProfile& profile) {
  Json json = {{"emblem_probe", kFormat},  {"date", profile.date},
               {"device", profile.device}, {"transport", profile.transport},
               {"model", profile.model},   {"threads", profile.threads},
               {"hosts", profile.hosts}};
  for (const MemoryPool& pool : profile.memory)
    json["memory"].push_back({{"ranks", pool.ranks}, {"free_bytes", pool.free_bytes}});
  json["exchange"] = {{"even", to_value(profile.exchange.even)},
                      {"one", to_value(profile.exchange.one)}};
  if (!profile.exchange.inside.points().empty())
    json["exchange"]["inside"] = to_value(profile.exchange.inside);
  json["dense_sum"] = to_value(profile.dense_sum);
  json["pass"] = {{"requests", to_value(profile.pass.requests)},
                  {"dense", to_value(profile.pass.dense)},
                  {"sums", to_value(profile.pass.sums)}};
  json["steps"] = {{"shards", profile.steps.shards}, {"held", Json::array()}};
  for (const StepCosts::Held& each : profile.steps.held)
    json["steps"]["held"].push_back({{"holding", name_of(each.tables.holding)},
                                     {"every_second", each.tables.every_second},
                                     {"most_keys", each.tables.most_keys},
                                     {"seconds_by_rows", to_value(each.seconds)}});
  json["tables"] = Json::array();
  for (const TableCosts& costs : profile.tables)
    json["tables"].push_back({{"dim", costs.table.dim},
                              {"dtype", costs.table.dtype},
                              {"rule", costs.table.rule},
                              {"dynamic", costs.table.is_dynamic},
                              {"bytes_a_row", costs.bytes_per_row},
                              {"gather_alone_share", costs.gather_alone_share},
                              {"update_alone_share", costs.update_alone_share},
                              {"gather", to_value(costs.gather)},
                              {"update", to_value(costs.update)},
                              {"requests_by_lookups", to_value(costs.requests)},
                              {"sums_by_lookups", to_value(costs.sums)}});
  return json.dump(1) + "\n";
}

MachineProfile parse_machine_profile(const std::string& text, const std::string& path) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kInvalidArgument,
                cat(path, ": not a file of emblem probe: ", json_problem(error.what())));
  }
  if (!json.is_object() || !json.contains("emblem_probe"))
    throw Error(ErrorCode::kInvalidArgument,
                cat(path, ": not a file of emblem probe: it has no \"emblem_probe\""));
  const Field all(json, path, "; make the file again with emblem probe");
  if (all["emblem_probe"].integer(0) != kFormat) all["emblem_probe"].refuse(cat(kFormat));
  MachineProfile profile;
  profile.date = all["date"].text();
  profile.device = all["device"].text();
  profile.transport = all["transport"].text();
  profile.model = all["model"].text();
  profile.threads = static_cast<int>(all["threads"].integer(1));
  const Field hosts = all["hosts"];
  for (size_t r = 0; r < hosts.size(); ++r) profile.hosts.push_back(hosts[r].text());
  if (profile.hosts.empty()) hosts.refuse("the host of each rank");
  profile.memory = pools_of(all["memory"], profile.ranks());
  const Field exchange = all["exchange"];
  profile.exchange = {curve_of(exchange["even"]), curve_of(exchange["one"]), {}};
  if (exchange.has("inside")) profile.exchange.inside = curve_of(exchange["inside"]);
  profile.dense_sum = curve_of(all["dense_sum"]);
  profile.pass = {curve_of(all["pass"]["requests"]), curve_of(all["pass"]["dense"]),
                  curve_of(all["pass"]["sums"])};
  profile.steps = steps_of(all["steps"]);
  const Field tables = all["tables"];
  for (size_t t = 0; t < tables.size(); ++t) profile.tables.push_back(table_of(tables[t]));
  return profile;
}

}  // namespace emblem
