#include "train/predict/evaluation.h"

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ranges>

#include "comm/bytes.h"
#include "core/files/byte_io.h"
#include "core/system/seconds_since.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "train/learner/lookup_report.h"
#include "train/predict/own_metrics.h"

namespace emblem {

std::vector<HeadMetrics> evaluated_metrics(const config::PipelineConfig& config,
                                           const FeatureLayout& layout) {
  std::vector<HeadMetrics> metrics;
  for (const HeadSpec& head : heads_of(config, layout)) metrics.emplace_back(head, layout);
  return metrics;
}

double Evaluation::at(const std::string& metric) const {
  const auto found = metrics.find(metric);
  if (found != metrics.end()) return found->second;
  throw Error(ErrorCode::kInvalidArgument,
              cat("metric \"", metric, "\" is not evaluated, but ",
                  joined(std::views::keys(metrics)), "; add it to model_config.metrics"));
}

void check_metrics(const config::PipelineConfig& config, const FeatureLayout& layout) {
  evaluated_metrics(config, layout);
}

namespace {

using ShardMetrics = std::vector<HeadMetrics>;  // by head

void merge(const ShardMetrics& from, ShardMetrics& to) {
  for (size_t head = 0; head < to.size(); ++head) to[head].merge(from[head]);
}

// What a rank other than 0 sends it.
std::string to_bytes(const std::vector<ShardMetrics>& shards) {
  ByteWriter bytes;
  bytes.add(static_cast<uint64_t>(shards.size()));
  for (const ShardMetrics& metrics : shards)
    for (const HeadMetrics& of_head : metrics) bytes.add_text(of_head.to_bytes());
  return std::move(bytes).bytes();
}

// `one` has the settings of the metrics of a shard.
void merge(std::string_view of_rank, ShardMetrics& one, ShardMetrics& to) {
  ByteReader bytes(of_rank, "the evaluation of a rank");
  for (size_t left = bytes.read_count(sizeof(uint64_t)); left > 0; --left) {
    for (HeadMetrics& of_head : one) of_head.restore(bytes.read_text());
    merge(one, to);
  }
  bytes.end();
}

// The values of all shards, on rank 0.
void set_values(ShardMetrics& metrics, Evaluation& result) {
  for (HeadMetrics& of_head : metrics) {
    for (size_t i = 0; i < of_head.names().size(); ++i)
      result.metrics[of_head.names()[i]] = of_head.value(i);
    if (const auto only = of_head.only_label())
      result.only_labels.push_back({*only, of_head.names()});
  }
}

std::string values_to_bytes(const Evaluation& evaluation) {
  ByteWriter bytes;
  bytes.add(evaluation.seconds).add(static_cast<uint64_t>(evaluation.metrics.size()));
  for (const auto& [name, value] : evaluation.metrics) bytes.add_text(name).add(value);
  bytes.add(static_cast<uint64_t>(evaluation.only_labels.size()));
  for (const Evaluation::OnlyLabel& one : evaluation.only_labels) {
    bytes.add(one.label).add(static_cast<uint64_t>(one.metrics.size()));
    for (const std::string& name : one.metrics) bytes.add_text(name);
  }
  return std::move(bytes).bytes();
}

void read_values(std::string_view from, Evaluation& evaluation) {
  ByteReader bytes(from, "an evaluation");
  bytes.read(evaluation.seconds);
  for (size_t left = bytes.read_count(2 * sizeof(uint64_t)); left > 0; --left) {
    const std::string name(bytes.read_text());
    bytes.read(evaluation.metrics[name]);
  }
  evaluation.only_labels.resize(bytes.read_count(sizeof(float) + sizeof(uint64_t)));
  for (Evaluation::OnlyLabel& one : evaluation.only_labels) {
    bytes.read(one.label);
    one.metrics.resize(bytes.read_count(sizeof(uint64_t)));
    for (std::string& name : one.metrics) name = bytes.read_text();
  }
  bytes.end();
}

// Fills in what the metrics of all shards say of a pass that began at `start`. Collective.
void merge_shards(const World& world, std::vector<ShardMetrics> shards, ShardMetrics one,
                  std::chrono::steady_clock::time_point start, Evaluation& result) {
  const std::vector<std::string> of_ranks =
      gather_bytes(*world.ranks, world.writes() ? std::string() : to_bytes(shards));
  if (world.writes()) {
    ShardMetrics& all = shards[0];
    for (size_t shard = 1; shard < shards.size(); ++shard) merge(shards[shard], all);
    for (size_t rank = 1; rank < of_ranks.size(); ++rank) merge(of_ranks[rank], one, all);
    set_values(all, result);
    result.seconds = seconds_since(start);
  }
  std::string values = values_to_bytes(result);
  broadcast_bytes(*world.ranks, values);
  read_values(values, result);
}

}  // namespace

std::optional<Evaluation> evaluate(const Context& context, Model& model,
                                   const config::PipelineConfig& config,
                                   const FeatureLayout& layout, const LoaderOptions& options,
                                   const World& world, const PassWatch& watch) {
  const auto start = std::chrono::steady_clock::now();
  LoaderOptions limited = options;
  if (config.eval_config().has_num_steps()) limited.max_batches = config.eval_config().num_steps();
  std::vector<ShardMetrics> shards;
  for (int64_t i = 0; i < world.own_shards(); ++i)
    shards.push_back(evaluated_metrics(config, layout));
  std::optional<RowCollector> collected;
  if (watch.own_metrics != nullptr && watch.own_metrics->compute)
    collected.emplace(heads_of(config, layout));
  const auto own = for_each_prediction(
      context, model, config, layout, limited, world, watch,
      [&](size_t shard, const Batch& batch, const std::vector<View<const float>>& logits) {
        if (collected) collected->add(batch, logits);
        for (size_t head = 0; head < shards[shard].size(); ++head)
          shards[shard][head].add(batch, logits[head]);
      });
  if (!own) return std::nullopt;
  const PredictionPass pass = sum_passes(world, *own, limited);
  Evaluation result{
      .rows = pass.rows, .bad_rows = pass.bad_rows, .lookups = by_feature(pass.lookups)};
  merge_shards(world, std::move(shards), evaluated_metrics(config, layout), start, result);
  EMBLEM_REQUIRE(result.rows > 0, "no rows to evaluate in ", options.input,
                 result.bad_rows > 0 ? cat(": all ", result.bad_rows, " are bad") : std::string());
  if (collected) {
    for (const auto& [name, value] : watch.own_metrics->compute(collected->rows()))
      result.metrics[name] = value;
  }
  return result;
}

std::string undefined_metrics_reason(const Evaluation& evaluation,
                                     const std::string& label_positive) {
  std::string reasons;
  for (const auto& [label, metrics] : evaluation.only_labels) {
    std::string names;
    size_t count = 0;
    for (const std::string& name : metrics) {
      if (std::isnan(evaluation.at(name))) names += (count++ == 0 ? "" : ", ") + name;
    }
    if (count == 0) continue;
    reasons += cat(reasons.empty() ? "" : "; ", names, count == 1 ? " is" : " are",
                   " not defined: all ", evaluation.rows, " labels are ", label);
    if (!label_positive.empty() && label == 0)
      reasons += cat("; no row has the label_positive \"", printable(label_positive), "\"");
  }
  return reasons;
}

std::string to_text(const Evaluation& evaluation) {
  std::string text;
  for (const auto& [name, value] : evaluation.metrics) {
    text += (text.empty() ? "" : "  ") + name + " " + format_metric(value);
  }
  return text;
}

std::string to_json(const Evaluation& evaluation, const std::string& checkpoint, int64_t step) {
  nlohmann::json json;
  for (const auto& [name, value] : evaluation.metrics) {
    if (std::isnan(value))
      json[name] = nullptr;
    else
      json[name] = value;
  }
  json["rows"] = evaluation.rows;
  json["bad_rows"] = evaluation.bad_rows;
  json["checkpoint"] = checkpoint;
  json["step"] = step;
  json["lookups"] = nlohmann::json::object();
  for (const FeatureLookups& one : evaluation.lookups)
    json["lookups"][one.feature] = {{"values", one.counts.values},
                                    {"missing", one.counts.missing},
                                    {"missing_share", missing_share(one.counts)}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace emblem
