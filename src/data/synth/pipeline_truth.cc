#include "data/synth/pipeline_truth.h"

#include <algorithm>
#include <cmath>

#include "core/math/random.h"
#include "data/synth/streams.h"

namespace emblem {
namespace {

enum class Use : uint64_t { kRow = 17, kScatter, kOwnEffect, kSharedEffect, kHidden, kKind, kItem };

constexpr uint64_t kKinds = 8;
constexpr double kHistoryOfKind = 0.6, kItemOfKind = 0.4;  // shares that are of the preferred kind
constexpr double kLogitDeviation = 1.4;
constexpr double kLabelMean = 0.3, kConditionalMean = 0.25;
// Shares of the variance of a logit.
constexpr double kNumberShare = 0.25, kIdShare = 0.35, kPairShare = 0.05, kHistoryShare = 0.35;
constexpr double kSharedPart = 0.8, kOwnPart = 0.6;  // squares add up to 1
constexpr double kTrustedProbability = 0.01;  // an id that is so frequent has half of its effect
constexpr double kTrustedInHistory = 0.001;   // the same in histories, which have many elements
constexpr double kSameKind = 4.0;             // times the weight of other elements
constexpr double kEmptyHistories = 0.05;
constexpr int64_t kCalibrationRows = 4096;
constexpr size_t kMostPairs = 2;
constexpr int64_t kLeastPairValues = 8;

double logit(double p) {
  p = std::clamp(p, 1e-9, 1 - 1e-9);
  return std::log(p / (1 - p));
}

// The same for all numbers of an interval, so that buckets say all that there is to know.
double deviation_of_interval(uint64_t interval, uint64_t intervals) {
  return kRoot12 * ((static_cast<double>(interval) + 0.5) / static_cast<double>(intervals) - 0.5);
}

double deviation_of(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(values.size());
  return std::sqrt(std::max(0.0, squares / count - sum * sum / (count * count)));
}

}  // namespace

PipelineTruth::PipelineTruth(const PipelineSchema& schema, uint64_t seed, double alpha)
    : schema_(schema), seed_(seed) {
  for (size_t i = 0; i < schema.domains.size(); ++i) {
    const int64_t values = std::clamp<int64_t>(schema.domains[i].values, 1, Scatter::kMostValues);
    domains_.push_back({Zipf(values, alpha), Scatter(values, seed, stream(Use::kScatter, i))});
  }
  std::vector<size_t> ids;
  for (size_t i = 0; i < schema.columns.size(); ++i) {
    const PipelineColumn& column = schema.columns[i];
    if (column.form == PipelineColumn::Form::kIds && column.sequence < 0 &&
        schema.domains[column.domain].values >= kLeastPairValues)
      ids.push_back(i);
  }
  std::stable_sort(ids.begin(), ids.end(), [&](size_t a, size_t b) {
    return schema.domains[schema.columns[a].domain].values <
           schema.domains[schema.columns[b].domain].values;
  });
  for (size_t i = 0; i + 1 < ids.size() && pairs_.size() < kMostPairs; i += 2)
    pairs_.emplace_back(ids[i], ids[i + 1]);
  for (const PipelineLabel& label : schema.labels) {
    first_targets_.push_back(targets_.size());
    const bool has_classes = label.kind == LabelKind::kClass && label.classes > 2;
    targets_.resize(targets_.size() + static_cast<size_t>(has_classes ? label.classes : 1));
  }
  calibrate();
}

uint64_t PipelineTruth::kind_of(size_t domain, int64_t rank) const {
  return random_bits(seed_, stream(Use::kKind, domain), static_cast<uint64_t>(rank)) % kKinds;
}

double PipelineTruth::trust(size_t domain, int64_t rank, double trusted) const {
  const double probability = domains_[domain].law.probability(rank);
  return probability / (probability + trusted);
}

// An id of the preferred kind with probability `share`, where ids have kinds.
int64_t PipelineTruth::draw_id(const PipelineColumn& column, uint64_t kind, double share,
                               Random& random) const {
  const Zipf& law = domains_[column.domain].law;
  const bool is_preferred =
      schema_.domains[column.domain].has_histories && random.uniform() < share;
  int64_t rank = law.draw(random);
  for (int tries = 0; is_preferred && tries < 12 && kind_of(column.domain, rank) != kind; ++tries)
    rank = law.draw(random);
  return rank;
}

void PipelineTruth::draw_column(const PipelineColumn& column, uint64_t kind, Random& random,
                                PipelineRow& row, PipelineValues& values) const {
  values.ranks.clear();
  values.numbers.clear();
  int64_t count = column.least_values;
  if (column.sequence >= 0)
    count = row.lengths[static_cast<size_t>(column.sequence)];
  else if (column.most_values > column.least_values)
    count += static_cast<int64_t>(
        random.below(static_cast<uint64_t>(column.most_values - column.least_values + 1)));
  for (int64_t i = 0; i < count; ++i) {
    if (column.form == PipelineColumn::Form::kIds) {
      const double share = column.sequence >= 0 ? kHistoryOfKind : kItemOfKind;
      values.ranks.push_back(draw_id(column, kind, share, random));
      if (column.is_weighted) values.numbers.push_back(0.5 + random.uniform());
    } else if (!column.boundaries.empty()) {
      values.numbers.push_back(deviation_of_interval(random.below(column.boundaries.size() + 1),
                                                     column.boundaries.size() + 1));
    } else {
      values.numbers.push_back(random.normal());
    }
  }
}

// A few ids and, mostly, the one that is looked up.
void PipelineTruth::draw_map(const PipelineColumn& column, Random& random, const PipelineRow& row,
                             PipelineValues& values) const {
  values.ranks.clear();
  values.numbers.clear();
  for (const int64_t rank : row.columns[column.key].ranks) {
    if (random.uniform() < 0.8f &&
        std::find(values.ranks.begin(), values.ranks.end(), rank) == values.ranks.end())
      values.ranks.push_back(rank);
    if (values.ranks.size() >= 4) break;
  }
  for (int i = 0; i < 3; ++i) {
    const int64_t rank = domains_[column.domain].law.draw(random);
    if (std::find(values.ranks.begin(), values.ranks.end(), rank) == values.ranks.end())
      values.ranks.push_back(rank);
  }
  for (size_t i = 0; i < values.ranks.size(); ++i) values.numbers.push_back(random.normal());
}

void PipelineTruth::draw_item(int64_t rank, PipelineRow& row) const {
  const size_t id = schema_.items->id;
  row.columns[id].ranks.assign(1, rank);
  Random random{seed_, stream(Use::kItem, static_cast<uint64_t>(rank))};
  const uint64_t kind = kind_of(schema_.columns[id].domain, rank);
  for (const size_t at : schema_.items->attributes)
    if (at != id) draw_column(schema_.columns[at], kind, random, row, row.columns[at]);
}

void PipelineTruth::draw_values(Random& random, PipelineRow& row) const {
  row.lengths.clear();
  for (const int64_t longest : schema_.sequence_lengths) {
    // Short ones are frequent.
    const double part = random.uniform();
    const bool is_empty = random.uniform() < kEmptyHistories;
    const auto length = static_cast<int64_t>(std::ceil(part * part * static_cast<double>(longest)));
    row.lengths.push_back(is_empty ? 0 : std::clamp<int64_t>(length, 1, longest));
  }
  const uint64_t kind = random.below(kKinds);
  row.columns.resize(schema_.columns.size());
  const auto is_map = [](const PipelineColumn& column) {
    return column.form == PipelineColumn::Form::kMap ||
           column.form == PipelineColumn::Form::kNestedMap;
  };
  for (size_t i = 0; i < schema_.columns.size(); ++i)
    if (!is_map(schema_.columns[i]) && !schema_.columns[i].is_of_item)
      draw_column(schema_.columns[i], kind, random, row, row.columns[i]);
  if (schema_.items) draw_item(row.columns[schema_.items->id].ranks.at(0), row);
  for (size_t i = 0; i < schema_.columns.size(); ++i)
    if (is_map(schema_.columns[i])) draw_map(schema_.columns[i], random, row, row.columns[i]);
}

// Part of it is the same for all targets.
double PipelineTruth::effect_of(size_t column, uint64_t index, size_t target) const {
  return kSharedPart * effect(seed_, stream(Use::kSharedEffect, column), index) +
         kOwnPart * effect(seed_, stream(Use::kOwnEffect, target << 20 | column), index);
}

// The first column of each sequence that has an item: its kinds decide on the weights of elements.
size_t PipelineTruth::leader_of(size_t column) const {
  for (size_t i = 0; i < column; ++i)
    if (schema_.columns[i].query >= 0 &&
        schema_.columns[i].sequence == schema_.columns[column].sequence)
      return i;
  return column;
}

// The mean effect of the elements, those of the kind of the row's item counting kSameKind times;
// rare ids have little effect.
double PipelineTruth::history_effect(const PipelineRow& row, size_t column, size_t target) const {
  const size_t at = leader_of(column);
  const PipelineColumn& leader = schema_.columns[at];
  const std::vector<int64_t>& items = row.columns[static_cast<size_t>(leader.query)].ranks;
  if (items.empty()) return 0;
  const uint64_t kind = kind_of(leader.domain, items[0]);
  const std::vector<int64_t>& ranks = row.columns[column].ranks;
  double sum = 0, weights = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const double weight = kind_of(leader.domain, row.columns[at].ranks[i]) == kind ? kSameKind : 1;
    sum += weight * trust(schema_.columns[column].domain, ranks[i], kTrustedInHistory) *
           effect_of(column, static_cast<uint64_t>(ranks[i]), target);
    weights += weight;
  }
  return weights > 0 ? sum / weights : 0.0;
}

PipelineTruth::Parts PipelineTruth::parts_of(const PipelineRow& row, size_t target) const {
  Parts parts;
  for (size_t i = 0; i < schema_.columns.size(); ++i) {
    const PipelineColumn& column = schema_.columns[i];
    const PipelineValues& values = row.columns[i];
    if (column.query >= 0) {
      parts.histories += history_effect(row, i, target);
      continue;
    }
    const size_t count = std::max(values.ranks.size(), values.numbers.size());
    double sum = 0;
    for (size_t k = 0; k < count && column.form == PipelineColumn::Form::kIds; ++k)
      sum += trust(column.domain, values.ranks[k], kTrustedProbability) *
             effect_of(i, static_cast<uint64_t>(values.ranks[k]), target);
    if (count > 0) parts.ids += sum / static_cast<double>(count);
    sum = 0;
    for (size_t k = 0; k < count && column.form == PipelineColumn::Form::kNumbers; ++k)
      sum += std::clamp(values.numbers[k], -3.0, 3.0) * effect_of(i, k, target);
    if (count > 0) parts.numbers += sum / static_cast<double>(count);
  }
  for (const auto& [a, b] : pairs_) {
    const auto hidden = [&](size_t column) {
      const std::vector<int64_t>& ranks = row.columns[column].ranks;
      if (ranks.empty()) return 0.0;
      return trust(schema_.columns[column].domain, ranks[0], kTrustedProbability) *
             effect(seed_, stream(Use::kHidden, column), static_cast<uint64_t>(ranks[0]));
    };
    parts.pairs += hidden(a) * hidden(b);
  }
  return parts;
}

double PipelineTruth::logit_of(const Parts& parts, const Target& target) const {
  return target.bias + target.weight.numbers * parts.numbers + target.weight.ids * parts.ids +
         target.weight.pairs * parts.pairs + target.weight.histories * parts.histories;
}

void PipelineTruth::calibrate() {
  std::vector<PipelineRow> rows(kCalibrationRows);
  for (int64_t i = 0; i < kCalibrationRows; ++i) {
    Random random = row_random(Use::kRow, seed_, SynthSplit::kCalibration, i);
    draw_values(random, rows[static_cast<size_t>(i)]);
  }
  for (size_t label = 0; label < schema_.labels.size(); ++label) {
    const bool is_last = label + 1 == schema_.labels.size();
    const size_t end = is_last ? targets_.size() : first_targets_[label + 1];
    for (size_t target = first_targets_[label]; target < end; ++target)
      calibrate_target(target, rows,
                       schema_.labels[label].parent >= 0 ? kConditionalMean : kLabelMean);
  }
}

void PipelineTruth::calibrate_target(size_t at, const std::vector<PipelineRow>& rows,
                                     double label_mean) {
  std::vector<Parts> parts;
  for (const PipelineRow& row : rows) parts.push_back(parts_of(row, at));
  const auto weight = [&](double Parts::*part, double share) {
    std::vector<double> values;
    for (const Parts& one : parts) values.push_back(one.*part);
    const double deviation = deviation_of(values);
    return deviation > 1e-9 ? std::sqrt(share) / deviation : 0.0;
  };
  Target& target = targets_[at];
  target.weight = {weight(&Parts::numbers, kNumberShare), weight(&Parts::ids, kIdShare),
                   weight(&Parts::pairs, kPairShare), weight(&Parts::histories, kHistoryShare)};
  std::vector<double> logits;
  for (const Parts& one : parts) logits.push_back(logit_of(one, target));
  const double stretch = kLogitDeviation / std::max(1e-9, deviation_of(logits));
  for (double Parts::*part : {&Parts::numbers, &Parts::ids, &Parts::pairs, &Parts::histories})
    target.weight.*part *= stretch;
  for (double& value : logits) value *= stretch;
  target.bias = bias_for(logits, label_mean);
}

void PipelineTruth::draw_class(size_t at, Random& random, PipelineRow& row) const {
  const PipelineLabel& label = schema_.labels[at];
  std::vector<double>& probabilities = row.class_probabilities[at];
  probabilities.assign(static_cast<size_t>(label.classes), 1.0);
  double sum = 0;
  for (size_t k = 0; k < probabilities.size(); ++k) {
    const size_t target = first_targets_[at] + k;
    if (label.is_learned) {
      Target plain = targets_[target];
      plain.bias = 0;
      probabilities[k] = std::exp(logit_of(parts_of(row, target), plain));
    }
    sum += probabilities[k];
  }
  for (double& probability : probabilities) probability /= sum;
  double left = random.uniform();
  size_t chosen = 0;
  while (chosen + 1 < probabilities.size() && left >= probabilities[chosen])
    left -= probabilities[chosen++];
  row.labels[at] = static_cast<double>(chosen);
}

// Its parent is drawn.
void PipelineTruth::draw_label(size_t at, Random& random, PipelineRow& row) const {
  const PipelineLabel& label = schema_.labels[at];
  if (label.column >= 0) {
    const auto column = static_cast<size_t>(label.column);
    const int64_t id = number_of(schema_.columns[column].domain, row.columns[column].ranks[0]);
    row.labels[at] = static_cast<double>(id);
    return;
  }
  if (label.kind == LabelKind::kClass && label.classes > 2) return draw_class(at, random, row);
  const size_t target = first_targets_[at];
  const double value = logit_of(parts_of(row, target), targets_[target]);
  if (label.kind == LabelKind::kNumber) {
    row.truths[at] = row.truths_given_parent[at] = value;
    row.labels[at] = value + kNoise * random.normal();
    return;
  }
  const bool is_possible = label.parent < 0 || row.labels[static_cast<size_t>(label.parent)] > 0;
  const bool is_one = random.uniform() < sigmoid(value);
  row.labels[at] = is_possible && is_one ? 1.0 : 0.0;
  row.truths[at] = row.truths_given_parent[at] = value;
  if (label.parent >= 0)
    row.truths[at] = logit(sigmoid(value) * sigmoid(row.truths[static_cast<size_t>(label.parent)]));
}

void PipelineTruth::draw_labels(Random& random, PipelineRow& row) const {
  row.labels.assign(schema_.labels.size(), 0);
  row.truths.assign(schema_.labels.size(), 0);
  row.truths_given_parent.assign(schema_.labels.size(), 0);
  row.class_probabilities.resize(schema_.labels.size());
  for (size_t i = 0; i < schema_.labels.size(); ++i)
    if (schema_.labels[i].parent < 0) draw_label(i, random, row);
  for (size_t i = 0; i < schema_.labels.size(); ++i)
    if (schema_.labels[i].parent >= 0) draw_label(i, random, row);
  row.weights.resize(schema_.weight_fields.size());
  for (double& weight : row.weights) weight = 0.5 + random.uniform();
}

void PipelineTruth::draw(SynthSplit split, int64_t index, PipelineRow& row) const {
  Random random = row_random(Use::kRow, seed_, split, index);
  draw_values(random, row);
  draw_labels(random, row);
}

}  // namespace emblem
