// optim/rule.h - every update rule emblem knows, written once for CPU and CUDA, for table rows and
// for dense weights.
//
// A rule is a small value created for each step: learning rate and step-dependent factors are
// filled in by the caller (optim/schedule.h gives the learning rate). The state of a weight is
// kStates floats; `state` points at the first and `stride` is the distance between two, so that a
// row can keep its states in planes after its weights: [w x dim | s0 x dim | s1 x dim].
//
// A row-wise rule (tables only) also has one float for the whole row, after the planes. It first
// makes a factor of the row's mean squared gradient, then updates each weight with it.
#pragma once

#include <cmath>
#include <cstdint>
#include <variant>

#include "core/device/host_device.h"

namespace emblem {

// a x + b y. A GPU's compiler may fuse either product with the sum, as it finds best for the width
// of rows; here it is always the first, so that slices of rows are updated as whole rows are.
EMBLEM_HD inline float mix(float a, float x, float b, float y) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, x, __fmul_rn(b, y));
#else
  return a * x + b * y;
#endif
}

struct Sgd {
  static constexpr int kStates = 0;  // floats of state kept per weight
  static constexpr bool kRowWise = false;
  static constexpr bool kDenseOnly = false;  // not for tables
  float learning_rate = 0.01f;

  EMBLEM_HD void operator()(float gradient, float& weight, float*, int64_t) const {
    weight -= learning_rate * gradient;
  }
};

// v = momentum v + (1 - dampening) g;  w -= lr v   (nesterov: lr (g + momentum v)).
// As in PyTorch the first step is not damped: at_step sees to it.
struct Momentum {
  static constexpr int kStates = 1;
  static constexpr bool kRowWise = false;
  static constexpr bool kDenseOnly = false;
  float learning_rate = 0.01f;
  float momentum = 0.9f;
  float dampening = 0.0f;
  float nesterov = 0.0f;  // 1 or 0

  EMBLEM_HD void operator()(float gradient, float& weight, float* state, int64_t) const {
    const float velocity = mix(momentum, state[0], 1.0f - dampening, gradient);
    state[0] = velocity;
    weight -= learning_rate * (nesterov != 0.0f ? gradient + momentum * velocity : velocity);
  }
};

struct AdaGrad {
  static constexpr int kStates = 1;
  static constexpr bool kRowWise = false;
  static constexpr bool kDenseOnly = false;
  float learning_rate = 0.01f;
  float epsilon = 1e-8f;

  EMBLEM_HD void operator()(float gradient, float& weight, float* state, int64_t) const {
    state[0] += gradient * gradient;
    weight -= learning_rate * gradient / (sqrtf(state[0]) + epsilon);
  }
};

// One accumulator a row: the mean of the squared gradients of the row. Tables only.
struct RowWiseAdaGrad {
  static constexpr int kStates = 0;
  static constexpr bool kRowWise = true;
  static constexpr bool kDenseOnly = false;
  float learning_rate = 0.01f;
  float epsilon = 1e-8f;
  float decoupled_decay = 0.0f;  // w *= 1 - lr * decay, before the step

  EMBLEM_HD float factor(float mean_square, float* row_state) const {
    row_state[0] += mean_square;
    return learning_rate / (sqrtf(row_state[0]) + epsilon);
  }
  EMBLEM_HD void operator()(float factor, float gradient, float& weight, float*, int64_t) const {
    weight -= learning_rate * decoupled_decay * weight;
    weight -= factor * gradient;
  }
};

struct Adam {
  static constexpr int kStates = 2;
  static constexpr bool kRowWise = false;
  static constexpr bool kDenseOnly = false;
  float learning_rate = 0.001f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float correction1 = 1.0f;      // 1 - beta1^step, filled in by at_step
  float correction2 = 1.0f;      // sqrt(1 - beta2^step)
  float decoupled_decay = 0.0f;  // AdamW: w *= 1 - lr * decay, before the step

  EMBLEM_HD void operator()(float gradient, float& weight, float* state, int64_t stride) const {
    const float mean = mix(beta1, state[0], 1.0f - beta1, gradient);
    const float square = mix(beta2, state[stride], (1.0f - beta2) * gradient, gradient);
    state[0] = mean;
    state[stride] = square;
    weight -= learning_rate * decoupled_decay * weight;
    weight -= learning_rate * (mean / correction1) / (sqrtf(square) / correction2 + epsilon);
  }
};

// Adam whose step is divided by the largest second moment so far. state: mean, square, largest.
struct AmsGrad {
  static constexpr int kStates = 3;
  static constexpr bool kRowWise = false;
  static constexpr bool kDenseOnly = true;
  float learning_rate = 0.001f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float correction1 = 1.0f;  // as Adam's
  float correction2 = 1.0f;
  float decoupled_decay = 0.0f;

  EMBLEM_HD void operator()(float gradient, float& weight, float* state, int64_t stride) const {
    const float mean = mix(beta1, state[0], 1.0f - beta1, gradient);
    const float square = mix(beta2, state[stride], (1.0f - beta2) * gradient, gradient);
    const float largest = fmaxf(state[2 * stride], square);
    state[0] = mean;
    state[stride] = square;
    state[2 * stride] = largest;
    weight -= learning_rate * decoupled_decay * weight;
    weight -= learning_rate * (mean / correction1) / (sqrtf(largest) / correction2 + epsilon);
  }
};

// Adam with one second moment per row, of the mean squared gradient. Tables only.
struct PartialRowWiseAdam {
  static constexpr int kStates = 1;
  static constexpr bool kRowWise = true;
  static constexpr bool kDenseOnly = false;
  float learning_rate = 0.001f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float correction1 = 1.0f;  // as Adam's
  float correction2 = 1.0f;
  float decoupled_decay = 0.0f;

  EMBLEM_HD float factor(float mean_square, float* row_state) const {
    row_state[0] = mix(beta2, row_state[0], 1.0f - beta2, mean_square);
    return learning_rate / correction1 / (sqrtf(row_state[0]) / correction2 + epsilon);
  }
  EMBLEM_HD void operator()(float factor, float gradient, float& weight, float* state,
                            int64_t) const {
    const float mean = mix(beta1, state[0], 1.0f - beta1, gradient);
    state[0] = mean;
    weight -= learning_rate * decoupled_decay * weight;
    weight -= factor * mean;
  }
};

// As torch.optim.RMSprop without momentum. state: the mean square.
struct RmsProp {
  static constexpr int kStates = 1;
  static constexpr bool kRowWise = false;
  static constexpr bool kDenseOnly = false;
  float learning_rate = 0.01f;
  float alpha = 0.99f;
  float epsilon = 1e-8f;

  EMBLEM_HD void operator()(float gradient, float& weight, float* state, int64_t) const {
    state[0] = mix(alpha, state[0], (1.0f - alpha) * gradient, gradient);
    weight -= learning_rate * gradient / (sqrtf(state[0]) + epsilon);
  }
};

// As torch.optim.Adadelta. state: the mean squares of gradients and of steps.
struct AdaDelta {
  static constexpr int kStates = 2;
  static constexpr bool kRowWise = false;
  static constexpr bool kDenseOnly = false;
  float learning_rate = 1.0f;
  float rho = 0.9f;
  float epsilon = 1e-6f;

  EMBLEM_HD void operator()(float gradient, float& weight, float* state, int64_t stride) const {
    const float square = mix(rho, state[0], (1.0f - rho) * gradient, gradient);
    const float step = sqrtf(state[stride] + epsilon) / sqrtf(square + epsilon) * gradient;
    state[0] = square;
    state[stride] = mix(rho, state[stride], (1.0f - rho) * step, step);
    weight -= learning_rate * step;
  }
};

// McMahan et al. 2013. state: z, n.
struct Ftrl {
  static constexpr int kStates = 2;
  static constexpr bool kRowWise = false;
  static constexpr bool kDenseOnly = false;
  float learning_rate = 0.01f;  // alpha
  float beta = 1.0f;
  float l1 = 0.0f;
  float l2 = 0.0f;

  EMBLEM_HD void operator()(float gradient, float& weight, float* state, int64_t stride) const {
    const float n_old = state[stride];
    const float n_new = n_old + gradient * gradient;
    const float sigma = (sqrtf(n_new) - sqrtf(n_old)) / learning_rate;
    const float z = state[0] + gradient - sigma * weight;
    state[0] = z;
    state[stride] = n_new;
    const float magnitude = fabsf(z) - l1;
    if (magnitude <= 0.0f) {
      weight = 0.0f;
      return;
    }
    weight = (z > 0.0f ? -magnitude : magnitude) / ((beta + sqrtf(n_new)) / learning_rate + l2);
  }
};

// The complete list. Both backends std::visit it, so a new rule is one struct and one name here.
using Rule = std::variant<Sgd, Momentum, AdaGrad, RowWiseAdaGrad, Adam, Ftrl, AmsGrad,
                          PartialRowWiseAdam, RmsProp, AdaDelta>;

// Whether a rule has Adam's bias corrections.
template <class R>
inline constexpr bool kHasCorrections = requires(R rule) {
  rule.correction1;
};

// Calls body(rule) with a rule that tables can have. Others never reach a table (from_config.h).
template <class Body>
void visit_table_rule(const Rule& rule, Body&& body) {
  std::visit(
      [&](const auto& one) {
        if constexpr (!std::decay_t<decltype(one)>::kDenseOnly) body(one);
      },
      rule);
}

// The rule with the learning rate and what depends on the step, counted from 1: Adam's bias
// corrections, and no dampening in Momentum's first.
Rule at_step(Rule rule, float learning_rate, int64_t step);

// Floats of state that a row of `dim` weights keeps.
int64_t state_floats(const Rule& rule, int64_t dim);

const char* name_of(const Rule& rule);
bool is_row_wise(const Rule& rule);

}  // namespace emblem
