// data/synth/pipeline_truth.h - the known model of synthetic rows of any pipeline.
//
// A label's logit has parts: an effect of each number, an effect of each id, the product of hidden
// numbers of two ids, and for histories the mean effect of their elements, those of the kind of the
// row's item weighing most: an attention. Effects are shared by all labels in part, so that tasks
// are correlated. All of them are counter-based random numbers: nothing is stored.
//
// A row has a kind of items that it prefers; its history has more of them, and the item of the row
// often is one. Effects of rare ids are small, as in planted_truth.h.
#pragma once

#include <cstdint>
#include <vector>

#include "data/synth/pipeline_schema.h"
#include "data/synth/planted_truth.h"
#include "data/synth/zipf.h"

namespace emblem {

// Deviations of uniform numbers in [-0.5, 0.5) are in units of 1 / kRoot12.
inline constexpr double kRoot12 = 3.4641016151377544;

// Values of one column: of a row, or of the elements of its sequence.
struct PipelineValues {
  std::vector<int64_t> ranks;  // ids, 0 being the most frequent
  // kNumbers: deviations from the mean, mostly in [-2, 2]; weighted ids: their weights; kMap: the
  // value of each id
  std::vector<double> numbers;
};

struct PipelineRow {
  std::vector<int64_t> lengths;         // lengths of the sequences
  std::vector<PipelineValues> columns;  // as PipelineSchema::columns
  std::vector<double> labels;           // as PipelineSchema::labels
  // What is true of each label: the logit of its probability, for numbers the mean, and the
  // probabilities of classes where there are more than two.
  std::vector<double> truths;
  // The same where PipelineLabel::parent is 1: of labels without a parent, the truth.
  std::vector<double> truths_given_parent;
  std::vector<std::vector<double>> class_probabilities;
  std::vector<double> weights;  // as PipelineSchema::weight_fields
};

// Const methods may run concurrently.
class PipelineTruth {
 public:
  static constexpr double kNoise = 0.5;  // deviation of labels that are numbers from their mean

  PipelineTruth(const PipelineSchema& schema, uint64_t seed, double alpha);

  // Row number `index` of a split. Depends on nothing else.
  void draw(SynthSplit split, int64_t index, PipelineRow& row) const;

  // The attributes of the item with this id, 0 being the most frequent, in their columns of `row`;
  // other columns stay as they are.
  void draw_item(int64_t rank, PipelineRow& row) const;
  double probability_of(size_t domain, int64_t rank) const {
    return domains_[domain].law.probability(rank);
  }

  // The number of an id in files, for a rank of a domain.
  int64_t number_of(size_t domain, int64_t rank) const { return domains_[domain].scatter(rank); }

 private:
  struct Domain {
    Zipf law;
    Scatter scatter;
  };
  struct Parts {
    double numbers = 0, ids = 0, pairs = 0, histories = 0;
  };
  // One logit: a label, or a class of one.
  struct Target {
    Parts weight;
    double bias = 0;
  };

  void draw_values(Random& random, PipelineRow& row) const;
  void draw_column(const PipelineColumn& column, uint64_t kind, Random& random, PipelineRow& row,
                   PipelineValues& values) const;
  void draw_map(const PipelineColumn& column, Random& random, const PipelineRow& row,
                PipelineValues& values) const;
  int64_t draw_id(const PipelineColumn& column, uint64_t kind, double share, Random& random) const;
  void draw_labels(Random& random, PipelineRow& row) const;
  void draw_label(size_t label, Random& random, PipelineRow& row) const;
  void draw_class(size_t label, Random& random, PipelineRow& row) const;

  void calibrate();
  void calibrate_target(size_t target, const std::vector<PipelineRow>& rows, double label_mean);
  Parts parts_of(const PipelineRow& row, size_t target) const;
  double logit_of(const Parts& parts, const Target& target) const;
  double effect_of(size_t column, uint64_t index, size_t target) const;
  double trust(size_t domain, int64_t rank, double trusted) const;
  uint64_t kind_of(size_t domain, int64_t rank) const;
  size_t leader_of(size_t column) const;
  double history_effect(const PipelineRow& row, size_t column, size_t target) const;

  const PipelineSchema& schema_;
  uint64_t seed_;
  std::vector<Domain> domains_;
  std::vector<std::pair<size_t, size_t>> pairs_;  // pairs of columns
  std::vector<size_t> first_targets_;             // first targets of labels
  std::vector<Target> targets_;
};

}  // namespace emblem
