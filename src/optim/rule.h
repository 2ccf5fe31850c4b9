// optim/rule.h - every update rule emblem knows, written once for CPU and CUDA, for table rows and
// for dense weights.
//
// A rule is a small value created for each step: learning rate and step-dependent factors are
// filled in by the caller (optim/schedule.h gives the learning rate). The state of a weight is
// kStates floats; `state` points at the first and `stride` is the distance between two, so that a
// row can keep its states in planes after its weights: [w x dim | s0 x dim | s1 x dim].
#pragma once

#include <cmath>
#include <cstdint>
#include <variant>

#include "core/host_device.h"

namespace emblem {

struct Sgd {
  static constexpr int kStates = 0;  // floats of state kept per weight
  static constexpr bool kRowWise = false;
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
  float learning_rate = 0.01f;
  float momentum = 0.9f;
  float dampening = 0.0f;
  float nesterov = 0.0f;  // 1 or 0

  EMBLEM_HD void operator()(float gradient, float& weight, float* state, int64_t) const {
    const float velocity = momentum * state[0] + (1.0f - dampening) * gradient;
    state[0] = velocity;
    weight -= learning_rate * (nesterov != 0.0f ? gradient + momentum * velocity : velocity);
  }
};

struct AdaGrad {
  static constexpr int kStates = 1;
  static constexpr bool kRowWise = false;
  float learning_rate = 0.01f;
  float epsilon = 1e-8f;

  EMBLEM_HD void operator()(float gradient, float& weight, float* state, int64_t) const {
    state[0] += gradient * gradient;
    weight -= learning_rate * gradient / (sqrtf(state[0]) + epsilon);
  }
};

// One accumulator a row: the mean of the squared gradients of the row. Tables only.
struct RowWiseAdaGrad {
  static constexpr int kStates = 1;  // per row, not per weight
  static constexpr bool kRowWise = true;
  float learning_rate = 0.01f;
  float epsilon = 1e-8f;

  // The factor for every weight of the row: w -= factor * g.
  EMBLEM_HD float factor(float mean_square, float* state) const {
    state[0] += mean_square;
    return learning_rate / (sqrtf(state[0]) + epsilon);
  }
};

struct Adam {
  static constexpr int kStates = 2;
  static constexpr bool kRowWise = false;
  float learning_rate = 0.001f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float correction1 = 1.0f;      // 1 - beta1^step, filled in by at_step
  float correction2 = 1.0f;      // sqrt(1 - beta2^step)
  float decoupled_decay = 0.0f;  // AdamW: w *= 1 - lr * decay, before the step

  EMBLEM_HD void operator()(float gradient, float& weight, float* state, int64_t stride) const {
    const float mean = beta1 * state[0] + (1.0f - beta1) * gradient;
    const float square = beta2 * state[stride] + (1.0f - beta2) * gradient * gradient;
    state[0] = mean;
    state[stride] = square;
    weight -= learning_rate * decoupled_decay * weight;
    weight -= learning_rate * (mean / correction1) / (sqrtf(square) / correction2 + epsilon);
  }
};

// McMahan et al. 2013. state: z, n.
struct Ftrl {
  static constexpr int kStates = 2;
  static constexpr bool kRowWise = false;
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
using Rule = std::variant<Sgd, Momentum, AdaGrad, RowWiseAdaGrad, Adam, Ftrl>;

// The rule with the learning rate and what depends on the step, counted from 1: Adam's bias
// corrections, and no dampening in Momentum's first.
Rule at_step(Rule rule, float learning_rate, int64_t step);

// Floats of state that a row of `dim` weights keeps.
int64_t state_floats(const Rule& rule, int64_t dim);

const char* name_of(const Rule& rule);

}  // namespace emblem
