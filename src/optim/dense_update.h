// optim/dense_update.h - the loops over flat parameters that each device has.
#pragma once

#include <cstdint>

#include "core/device/context.h"
#include "core/memory/any_view.h"
#include "core/memory/view.h"
#include "optim/rule.h"

namespace emblem {

// w <- rule(w, scale * g + decay * w) for every parameter.
struct DenseUpdate {
  float* weights = nullptr;
  const float* gradients = nullptr;
  float* state = nullptr;
  const float* decay = nullptr;  // per parameter, or null
  int64_t size = 0;
  int64_t stride = 0;  // from one state of a parameter to the next
  float scale = 1.0f;
};

namespace cpu {
void update_dense(const Context& context, const Rule& rule, const DenseUpdate& update);
double squared_norm(const Context& context, View<const float> values);
void clip_by_value(const Context& context, View<float> values, float limit);
void add_scaled(const Context& context, View<const float> values, float scale, View<float> to);
void move_towards(const Context& context, View<const float> values, float share, View<float> from);
void swap_values(const Context& context, View<float> a, View<float> b);
}  // namespace cpu

namespace cuda {
void update_dense(const Context& context, const Rule& rule, const DenseUpdate& update);
// *result = the sum of squares; all in device memory. `parts` has kNormParts doubles.
inline constexpr int64_t kNormParts = 256;
void squared_norm(const Context& context, View<const float> values, double* parts, double* result);
void clip_by_value(const Context& context, AnyView values, float limit);
void add_scaled(const Context& context, View<const float> values, float scale, View<float> to);
void move_towards(const Context& context, View<const float> values, float share, View<float> from);
void swap_values(const Context& context, View<float> a, View<float> b);
}  // namespace cuda

}  // namespace emblem
