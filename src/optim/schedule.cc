#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "config/feature/metrics.h"
#include "emblem/error.h"
#include "optim/from_config.h"

namespace emblem {
namespace {

// Rises linearly from `start` to the base rate over the first `size` steps or epochs.
struct Warmup {
  double start = 0.0;
  int64_t size = 0;

  bool covers(int64_t at) const { return at < size; }
  double rate(double base, int64_t at) const {
    return start + (base - start) * static_cast<double>(at) / static_cast<double>(size);
  }
};

template <class Message>
Warmup warmup_from(const Message& m) {
  return {m.warmup_learning_rate(), m.warmup_size()};
}

// Down from `base` to `floor` along half a cosine; `share` of the way.
double cosine(double base, double floor, double share) {
  return floor + (base - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * share));
}

class Constant : public Schedule {
 public:
  explicit Constant(double base) : base_(base) {}
  double rate(int64_t, int64_t) const override { return base_; }

 private:
  double base_;
};

class ExponentialDecay : public Schedule {
 public:
  ExponentialDecay(double base, const config::ExponentialDecayLR& m)
      : base_(base), m_(m), warmup_(warmup_from(m)) {
    EMBLEM_REQUIRE(m.decay_size() > 0, "exponential_decay_learning_rate.decay_size is ",
                   m.has_decay_size() ? "0" : "missing",
                   "; set the number of steps or epochs of one decay");
    EMBLEM_REQUIRE(m.decay_factor() > 0.0f, "exponential_decay_learning_rate.decay_factor is ",
                   m.decay_factor(), ", but must be above 0");
  }
  double rate(int64_t step, int64_t epoch) const override {
    const int64_t at = m_.by_epoch() ? epoch : step;
    if (warmup_.covers(at)) return warmup_.rate(base_, at);
    double decays = static_cast<double>(at - warmup_.size) / m_.decay_size();
    if (m_.staircase()) decays = std::floor(decays);
    return std::max<double>(base_ * std::pow(static_cast<double>(m_.decay_factor()), decays),
                            m_.min_learning_rate());
  }

 private:
  double base_;
  config::ExponentialDecayLR m_;
  Warmup warmup_;
};

class ManualStep : public Schedule {
 public:
  ManualStep(double base, const config::ManualStepLR& m)
      : base_(base), m_(m), sizes_(m.schedule_sizes().begin(), m.schedule_sizes().end()) {
    EMBLEM_REQUIRE(!sizes_.empty() && m.learning_rates_size() == m.schedule_sizes_size(),
                   "manual_step_learning_rate has ", sizes_.size(), " schedule_sizes and ",
                   m.learning_rates_size(),
                   " learning_rates; it needs at least one of each and as many of both");
    EMBLEM_REQUIRE(std::is_sorted(sizes_.begin(), sizes_.end()),
                   "manual_step_learning_rate.schedule_sizes do not ascend; sort them");
    EMBLEM_REQUIRE(
        !m.warmup() || sizes_[0] > 0,
        "manual_step_learning_rate.warmup needs a first schedule_sizes above 0, but it is 0");
  }
  double rate(int64_t step, int64_t epoch) const override {
    const int64_t at = m_.by_epoch() ? epoch : step;
    const auto passed = std::lower_bound(sizes_.begin(), sizes_.end(), at) - sizes_.begin();
    if (passed > 0) return m_.learning_rates(static_cast<int>(passed) - 1);
    if (!m_.warmup()) return base_;
    return base_ + (m_.learning_rates(0) - base_) * static_cast<double>(at) /
                       static_cast<double>(sizes_[0]);
  }

 private:
  double base_;
  config::ManualStepLR m_;
  std::vector<int64_t> sizes_;
};

class CosineAnnealing : public Schedule {
 public:
  CosineAnnealing(double base, const config::CosineAnnealingLR& m)
      : base_(base), m_(m), warmup_(warmup_from(m)) {
    EMBLEM_REQUIRE(m.t_max() > 0, "cosine_annealing_learning_rate.T_max is ",
                   m.has_t_max() ? "0" : "missing",
                   "; set the number of steps or epochs until the minimum");
  }
  double rate(int64_t step, int64_t epoch) const override {
    const int64_t at = m_.by_epoch() ? epoch : step;
    if (warmup_.covers(at)) return warmup_.rate(base_, at);
    const int64_t elapsed = std::min<int64_t>(at - warmup_.size, m_.t_max());
    return cosine(base_, m_.min_learning_rate(), static_cast<double>(elapsed) / m_.t_max());
  }

 private:
  double base_;
  config::CosineAnnealingLR m_;
  Warmup warmup_;
};

class CosineWarmRestarts : public Schedule {
 public:
  CosineWarmRestarts(double base, const config::CosineAnnealingWarmRestartsLR& m)
      : base_(base), m_(m), warmup_(warmup_from(m)) {
    EMBLEM_REQUIRE(m.t_0() > 0, "cosine_annealing_warm_restarts_learning_rate.T_0 is ",
                   m.has_t_0() ? "0" : "missing",
                   "; set the number of steps or epochs of the first period");
    EMBLEM_REQUIRE(
        m.t_mult() > 0,
        "cosine_annealing_warm_restarts_learning_rate.T_mult is 0, but must be at least 1");
  }
  double rate(int64_t step, int64_t epoch) const override {
    const int64_t at = m_.by_epoch() ? epoch : step;
    if (warmup_.covers(at)) return warmup_.rate(base_, at);
    int64_t elapsed = at - warmup_.size, period = m_.t_0();
    if (m_.t_mult() == 1) elapsed %= period;
    for (; elapsed >= period; period *= m_.t_mult()) elapsed -= period;
    return cosine(base_, m_.min_learning_rate(),
                  static_cast<double>(elapsed) / static_cast<double>(period));
  }

 private:
  double base_;
  config::CosineAnnealingWarmRestartsLR m_;
  Warmup warmup_;
};

class WarmupPolynomialDecay : public Schedule {
 public:
  WarmupPolynomialDecay(double base, const config::WarmupPolynomialDecayLR& m)
      : base_(base), m_(m) {
    EMBLEM_REQUIRE(
        m.has_decay_start() && m.decay_size() > 0, "warmup_polynomial_decay_learning_rate.",
        m.has_decay_start() ? "decay_size" : "decay_start",
        " is missing; set decay_start (the first step of the decay) and decay_size (its steps)");
    EMBLEM_REQUIRE(m.decay_start() >= m.warmup_size(),
                   "warmup_polynomial_decay_learning_rate.decay_start is ", m.decay_start(),
                   ", before the end of the warm-up at ", m.warmup_size());
  }
  double rate(int64_t step, int64_t) const override {
    if (step < m_.warmup_size()) return base_ * static_cast<double>(step) / m_.warmup_size();
    if (step < m_.decay_start()) return base_;
    const int64_t left = static_cast<int64_t>(m_.decay_start()) + m_.decay_size() - step;
    if (left <= 0) return m_.end_learning_rate();
    const double decayed =
        base_ * std::pow(static_cast<double>(left) / m_.decay_size(), m_.power());
    return std::max<double>(decayed, m_.end_learning_rate());
  }

 private:
  double base_;
  config::WarmupPolynomialDecayLR m_;
};

class ReduceOnPlateau : public Schedule {
 public:
  ReduceOnPlateau(double base, const config::ReduceOnPlateauLR& m)
      : base_(base), m_(m), lower_is_better_(lower_is_better(m.metric())) {
    EMBLEM_REQUIRE(m.factor() > 0.0f && m.factor() < 1.0f,
                   "reduce_on_plateau_learning_rate.factor is ", m.factor(),
                   ", but must be above 0 and below 1");
  }
  double rate(int64_t, int64_t) const override {
    // A base rate below the minimum is left alone.
    return std::max(base_ * state_.factor, std::min<double>(base_, m_.min_learning_rate()));
  }
  void observe(const std::string& metric, double value) override {
    if (metric != m_.metric()) return;
    const double gain = lower_is_better_ ? state_.best - value : value - state_.best;
    if (!std::isnan(value) && (!state_.has_best || gain > m_.min_delta())) {
      state_.best = value;
      state_.has_best = true;
      state_.bad_evaluations = 0;
      return;
    }
    if (++state_.bad_evaluations <= static_cast<int64_t>(m_.patience())) return;
    state_.factor *= m_.factor();
    state_.bad_evaluations = 0;
  }
  PlateauState state() const override { return state_; }
  void restore(const PlateauState& state) override { state_ = state; }

 private:
  double base_;
  config::ReduceOnPlateauLR m_;
  bool lower_is_better_;
  PlateauState state_;
};

template <class Optimizer>
std::unique_ptr<Schedule> schedule_from(double base, const Optimizer& o) {
  if (base == 0.0) return std::make_unique<Constant>(0.0);  // frozen, whatever the schedule
  switch (o.learning_rate_case()) {
    case Optimizer::kExponentialDecayLearningRate:
      return std::make_unique<ExponentialDecay>(base, o.exponential_decay_learning_rate());
    case Optimizer::kManualStepLearningRate:
      return std::make_unique<ManualStep>(base, o.manual_step_learning_rate());
    case Optimizer::kCosineAnnealingLearningRate:
      return std::make_unique<CosineAnnealing>(base, o.cosine_annealing_learning_rate());
    case Optimizer::kCosineAnnealingWarmRestartsLearningRate:
      return std::make_unique<CosineWarmRestarts>(base,
                                                  o.cosine_annealing_warm_restarts_learning_rate());
    case Optimizer::kWarmupPolynomialDecayLearningRate:
      return std::make_unique<WarmupPolynomialDecay>(base,
                                                     o.warmup_polynomial_decay_learning_rate());
    case Optimizer::kReduceOnPlateauLearningRate:
      return std::make_unique<ReduceOnPlateau>(base, o.reduce_on_plateau_learning_rate());
    case Optimizer::kConstantLearningRate:
    case Optimizer::LEARNING_RATE_NOT_SET:
      break;
  }
  return std::make_unique<Constant>(base);
}

}  // namespace

std::unique_ptr<Schedule> make_schedule(const config::SparseOptimizer& optimizer) {
  return schedule_from(sparse_optimizer_from(optimizer).learning_rate, optimizer);
}

std::unique_ptr<Schedule> make_schedule(const config::DenseOptimizer& optimizer) {
  return schedule_from(dense_optimizer_from(optimizer).learning_rate, optimizer);
}

std::unique_ptr<Schedule> make_schedule(const config::DenseOptimizer& optimizer,
                                        const config::PartOptimizer& part) {
  const double base = dense_optimizer_from(part).learning_rate;
  return part.learning_rate_case() == config::PartOptimizer::LEARNING_RATE_NOT_SET
             ? schedule_from(base, optimizer)
             : schedule_from(base, part);
}

}  // namespace emblem
