#include "train/rank_evaluation.h"

#include "comm/bytes.h"
#include "core/byte_io.h"
#include "train/rank_pass.h"

namespace emblem {
namespace {

using ShardMetrics = std::vector<HeadMetrics>;  // by head

// ---- what a rank found, for rank 0 ----

std::string to_bytes(const PredictionPass& pass, const std::vector<ShardMetrics>& shards) {
  ByteWriter bytes;
  write_pass(bytes, pass);
  bytes.add(static_cast<uint64_t>(shards.size()));
  for (const ShardMetrics& metrics : shards)
    for (const HeadMetrics& of_head : metrics) bytes.add_text(of_head.to_bytes());
  return std::move(bytes).bytes();
}

// Adds it to `pass` and `metrics`. `one` has the settings of the metrics of a shard.
void merge(std::string_view of_rank, ShardMetrics& one, PredictionPass& pass,
           ShardMetrics& metrics) {
  ByteReader bytes(of_rank, "the evaluation of a rank");
  read_pass(bytes, pass);
  const size_t shards = bytes.read_count(sizeof(uint64_t));
  for (size_t shard = 0; shard < shards; ++shard) {
    for (size_t head = 0; head < metrics.size(); ++head) {
      one[head].restore(bytes.read_text());
      metrics[head].merge(one[head]);
    }
  }
  bytes.end();
}

// ---- the result, for all ranks ----

std::string to_bytes(const Evaluation& evaluation) {
  ByteWriter bytes;
  bytes.add(evaluation.rows).add(evaluation.bad_rows).add(evaluation.seconds);
  write_lookups(bytes, evaluation.lookups);
  bytes.add(static_cast<uint64_t>(evaluation.metrics.size()));
  for (const auto& [name, value] : evaluation.metrics) bytes.add_text(name).add(value);
  bytes.add(static_cast<uint64_t>(evaluation.only_labels.size()));
  for (const Evaluation::OnlyLabel& one : evaluation.only_labels) {
    bytes.add(one.label).add(static_cast<uint64_t>(one.metrics.size()));
    for (const std::string& name : one.metrics) bytes.add_text(name);
  }
  return std::move(bytes).bytes();
}

Evaluation read_evaluation(std::string_view from) {
  ByteReader bytes(from, "an evaluation");
  Evaluation evaluation;
  bytes.read(evaluation.rows);
  bytes.read(evaluation.bad_rows);
  bytes.read(evaluation.seconds);
  evaluation.lookups = read_lookups(bytes);
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
  return evaluation;
}

}  // namespace

std::optional<Evaluation> evaluate_shards(const Context& context, Model& model,
                                          const config::PipelineConfig& config,
                                          const FeatureLayout& layout, const LoaderOptions& options,
                                          const World& world) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<ShardMetrics> shards;
  for (int64_t i = 0; i < world.own_shards(); ++i)
    shards.push_back(evaluated_metrics(config, layout));
  const auto pass = for_each_shard_prediction(
      context, model, config, layout, options, "evaluating", world,
      [&](size_t shard, const Batch& batch, const std::vector<View<const float>>& logits) {
        for (size_t head = 0; head < shards[shard].size(); ++head)
          shards[shard][head].add(batch, logits[head]);
      });
  if (!pass) return std::nullopt;
  std::string result;
  {
    const std::vector<std::string> of_ranks = gather_bytes(*world.ranks, to_bytes(*pass, shards));
    shards.clear();
    PredictionPass all;
    ShardMetrics metrics = evaluated_metrics(config, layout);
    ShardMetrics one = evaluated_metrics(config, layout);
    for (const std::string& of_rank : of_ranks) merge(of_rank, one, all, metrics);
    if (world.rank() == 0) result = to_bytes(evaluation_of(metrics, all, start));
  }
  broadcast_bytes(*world.ranks, result);
  Evaluation evaluation = read_evaluation(result);
  check_bad_rows({.bad_rows = evaluation.bad_rows}, options);
  return evaluation;
}

}  // namespace emblem
