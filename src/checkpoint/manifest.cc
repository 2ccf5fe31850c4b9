#include "checkpoint/manifest.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "config/load/name.h"
#include "core/files/inner_path.h"
#include "core/math/checksum.h"
#include "core/text/json_error.h"
#include "core/text/shallow_json.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormatName = "emblem-checkpoint";

// JSON knows no infinities and no NaN.
Json from_double(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double to_double(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const auto text = value.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw std::invalid_argument(cat("number ", text));
}

// ---- the parts, each way ----

static_assert(sizeof(DataPosition) == 5 * sizeof(int64_t) + sizeof(DataPosition::stream),
              "write and read the new fields here, too");

Json to_json(const DataPosition& position) {
  Json json = {{"epoch", position.epoch},
               {"piece", position.piece},
               {"row", position.row},
               {"emitted", position.emitted},
               {"rows_in_epoch", position.rows_in_epoch}};
  for (const StreamPosition& each : position.stream)
    json["stream"].push_back(
        {{"partition", each.partition}, {"offset", each.offset}, {"row", each.row}});
  return json;
}

DataPosition to_position(const Json& json) {
  DataPosition position{.epoch = json.at("epoch"),
                        .piece = json.at("piece"),
                        .row = json.at("row"),
                        .emitted = json.at("emitted"),
                        .rows_in_epoch = json.at("rows_in_epoch")};
  if (!json.contains("stream")) return position;
  for (const Json& each : json.at("stream"))
    position.stream.push_back({each.at("partition"), each.at("offset"), each.at("row")});
  return position;
}

Json to_json(const PlateauState& state) {
  return {{"best", from_double(state.best)},
          {"has_best", state.has_best},
          {"bad_evaluations", state.bad_evaluations},
          {"factor", from_double(state.factor)}};
}

PlateauState to_plateau(const Json& json) {
  return {.best = to_double(json.at("best")),
          .has_best = json.at("has_best"),
          .bad_evaluations = json.at("bad_evaluations"),
          .factor = to_double(json.at("factor"))};
}

Json to_json(const EarlyStoppingState& state) {
  return {{"metric", state.metric},
          {"has_best", state.has_best},
          {"best", from_double(state.best)},
          {"best_step", state.best_step},
          {"bad_evaluations", state.bad_evaluations}};
}

EarlyStoppingState to_early_stopping(const Json& json) {
  return {.metric = json.value("metric", ""),
          .has_best = json.at("has_best"),
          .best = to_double(json.at("best")),
          .best_step = json.at("best_step"),
          .bad_evaluations = json.at("bad_evaluations")};
}

Json to_json(const InputFiles& files) {
  Json json = {
      {"files", files.files}, {"bytes", files.bytes}, {"names", checksum_digits(files.names)}};
  if (files.content) json["content"] = checksum_digits(*files.content);
  return json;
}

std::optional<InputFiles> to_input_files(const Json& json) {
  if (json.is_null()) return std::nullopt;
  InputFiles files{.files = json.at("files"),
                   .bytes = json.at("bytes"),
                   .names = parse_checksum_digits(json.at("names"))};
  if (json.contains("content")) files.content = parse_checksum_digits(json.at("content"));
  return files;
}

Json to_json(const LossScaleState& state) {
  return {{"scale", from_double(state.scale)}, {"good_steps", state.good_steps}};
}

std::optional<LossScaleState> to_loss_scale(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return LossScaleState{.scale = to_double(json.at("scale")), .good_steps = json.at("good_steps")};
}

Json to_json(const ManifestTable& table) {
  return {{"name", table.name},   {"kind", table.kind}, {"dim", table.dim},
          {"dtype", table.dtype}, {"rows", table.rows}, {"optimizer", table.optimizer},
          {"files", table.files}};
}

// The name of a table is the name of a folder.
std::string table_name(const Json& json) {
  const auto name = json.get<std::string>();
  if (!name_problem(name, kLongestTableName).empty())
    throw std::invalid_argument(cat("table name \"", printable(name), "\" is not a plain name"));
  return name;
}

ManifestTable to_table(const Json& json) {
  return {.name = table_name(json.at("name")),
          .kind = json.at("kind"),
          .dim = json.at("dim"),
          .dtype = json.at("dtype"),
          .rows = json.at("rows"),
          .optimizer = json.at("optimizer"),
          .files = json.at("files").get<std::vector<std::string>>()};
}

void add_lists(const Manifest& manifest, Json& json) {
  json["model"]["parameters"] = Json::array();
  for (const ManifestParameter& parameter : manifest.parameters) {
    json["model"]["parameters"].push_back({{"name", parameter.name}, {"shape", parameter.shape}});
  }
  json["tables"] = Json::array();
  for (const ManifestTable& table : manifest.tables) json["tables"].push_back(to_json(table));
  json["schedules"] = Json::object();
  for (const auto& [name, state] : manifest.schedules) json["schedules"][name] = to_json(state);
  json["metrics"] = Json::object();
  for (const auto& [name, value] : manifest.metrics) json["metrics"][name] = from_double(value);
  json["seeds"] = manifest.seeds;
  json["files"] = Json::object();
  for (const auto& [name, facts] : manifest.files) {
    json["files"][name] = {{"bytes", facts.bytes}, {"checksum", checksum_digits(facts.checksum)}};
  }
}

// A path of the manifest must not lead out of the checkpoint.
std::string inner_path(const std::string& name) {
  const std::string problem = inner_path_problem(name);
  if (!problem.empty())
    throw std::invalid_argument(cat("path \"", printable(name.substr(0, 200)),
                                    "\" is not within the checkpoint: it ", problem));
  return name;
}

void take_lists(const Json& json, Manifest& manifest) {
  for (const Json& one : json.at("model").at("parameters")) {
    manifest.parameters.push_back({one.at("name"), one.at("shape").get<std::vector<int64_t>>()});
  }
  for (const Json& one : json.at("tables")) manifest.tables.push_back(to_table(one));
  for (const auto& [name, one] : json.at("schedules").items())
    manifest.schedules[name] = to_plateau(one);
  for (const auto& [name, one] : json.at("metrics").items())
    manifest.metrics[name] = to_double(one);
  for (const auto& [name, one] : json.at("seeds").items())
    manifest.seeds[name] = one.get<uint64_t>();
  for (const auto& [name, one] : json.at("files").items()) {
    manifest.files[inner_path(name)] = {one.at("bytes").get<uint64_t>(),
                                        parse_checksum_digits(one.at("checksum"))};
  }
}

Manifest to_manifest(const Json& json) {
  Manifest manifest{.emblem_version = json.at("emblem_version"),
                    .step = json.at("step"),
                    .epoch = json.at("epoch"),
                    .model = json.at("model").at("type"),
                    .position = to_position(json.at("data_position")),
                    .early_stopping = to_early_stopping(json.at("early_stopping")),
                    .loss_scale = to_loss_scale(json.value("loss_scale", Json())),
                    .evaluation_due = json.value("evaluation_due", false),
                    .only_best = json.value("only_best", false),
                    .deltas = json.value("deltas", int64_t{0}),
                    .input_files = to_input_files(json.value("input_files", Json())),
                    .sampler_files = to_input_files(json.value("sampler_files", Json()))};
  take_lists(json, manifest);
  for (const Json& position : json.value("shard_positions", Json::array()))
    manifest.positions.push_back(to_position(position));
  for (const ManifestTable& table : manifest.tables) {
    for (const std::string& file : table.files) {
      if (!manifest.files.contains(file)) throw std::invalid_argument(cat("no file ", file));
    }
  }
  return manifest;
}

void check_format(const Json& json, const std::string& path) {
  if (!json.is_object() || json.value("format", Json()) != kFormatName) {
    throw Error(ErrorCode::kInvalidArgument,
                cat(path, " is not the manifest of an emblem checkpoint"));
  }
  const Json version = json.value("format_version", Json());
  if (version.is_number_integer() && version.get<int64_t>() > kCheckpointFormat) {
    throw Error(
        ErrorCode::kInvalidArgument,
        cat(path, " has checkpoint format ", version.get<int64_t>(),
            ", but this program reads formats up to ", kCheckpointFormat, "; use a newer emblem"));
  }
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  Json json = {{"format", kFormatName},
               {"format_version", manifest.positions.empty() ? 1 : kCheckpointFormat},
               {"checksum", no_checksum()},
               {"emblem_version", manifest.emblem_version},
               {"step", manifest.step},
               {"epoch", manifest.epoch},
               {"model", {{"type", manifest.model}}},
               {"data_position", to_json(manifest.position)},
               {"early_stopping", to_json(manifest.early_stopping)},
               {"deltas", manifest.deltas}};
  // Older programs read manifests without these; they are absent where they say nothing.
  if (manifest.loss_scale) json["loss_scale"] = to_json(*manifest.loss_scale);
  if (manifest.evaluation_due) json["evaluation_due"] = true;
  if (manifest.only_best) json["only_best"] = true;
  if (manifest.input_files) json["input_files"] = to_json(*manifest.input_files);
  if (manifest.sampler_files) json["sampler_files"] = to_json(*manifest.sampler_files);
  for (const DataPosition& position : manifest.positions)
    json["shard_positions"].push_back(to_json(position));
  add_lists(manifest, json);
  return set_self_checksum(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  const auto damaged = [&](const std::string& how) {
    return Error(ErrorCode::kCorruption, cat(path, " is damaged: ", how));
  };
  const Json json = Json::parse(text, shallow_json, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw damaged("it is not valid JSON");
  check_format(json, path);
  if (!has_valid_self_checksum(text)) throw damaged("its checksum does not match its content");
  try {
    return to_manifest(json);
  } catch (const std::exception& error) {  // from json and from the conversions above
    throw damaged(json_problem(error.what()));
  }
}

}  // namespace emblem
