// optim/schedule.h - learning rates as functions of step, epoch and evaluation results.
#pragma once

#include <memory>
#include <string>

#include "config/proto/optimizer.pb.h"

namespace emblem {

// What a schedule that watches evaluations has seen; saved in checkpoints.
struct PlateauState {
  double best = 0.0;
  bool has_best = false;
  int64_t bad_evaluations = 0;
  double factor = 1.0;
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  // The rate of step `step` (from 0: the first step of training) in epoch `epoch` (from 0).
  virtual double rate(int64_t step, int64_t epoch) const = 0;
  // Called with each metric of an evaluation; schedules that watch none ignore it.
  virtual void observe(const std::string& metric, double value) { (void)metric, (void)value; }
  virtual PlateauState state() const { return {}; }
  virtual void restore(const PlateauState&) {}
};

// The schedule that the message selects (constant when none is), around base rate `base`.
std::unique_ptr<Schedule> make_schedule(const config::SparseOptimizer& optimizer);
std::unique_ptr<Schedule> make_schedule(const config::DenseOptimizer& optimizer);
// The schedule of one of its part_optimizers: the part's own schedule, or else that of
// `optimizer` with the part's lr.
std::unique_ptr<Schedule> make_schedule(const config::DenseOptimizer& optimizer,
                                        const config::PartOptimizer& part);

}  // namespace emblem
