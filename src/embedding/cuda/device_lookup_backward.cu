#include <algorithm>

#include "embedding/cuda/deterministic_sum.h"
#include "embedding/cuda/device_lookup.h"
#include "embedding/cuda/group_rows.h"
#include "embedding/cuda/lookup_scratch.cuh"
#include "embedding/cuda/update_rows.h"
#include "embedding/rounding.h"

namespace emblem::cuda {
namespace {

void check_step(const StepScalars& scalars) {
  EMBLEM_REQUIRE(scalars.step >= 1, "lookup: steps count from 1, but this is step ", scalars.step);
}

}  // namespace

void DeviceLookup::check_gradients(ConstAnyView gradients) const {
  EMBLEM_REQUIRE(ready_for_backward_,
                 "lookup: gradients without a training forward pass before them");
  EMBLEM_REQUIRE(gradients.rows == out_rows_ && gradients.cols == out_cols_,
                 "lookup: gradients are [", gradients.rows, ", ", gradients.cols,
                 "], but the last training pass was [", out_rows_, ", ", out_cols_, "]");
}

UpdateRows DeviceLookup::update_of(size_t cls, ConstAnyView gradients) const {
  const Class& of = classes_[cls];
  UpdateRows op;
  op.cls = static_cast<int>(cls);
  op.most = batch_->class_count[cls];
  op.in_order = settings_.sums == Sums::kDeterministic;
  op.shape = of.shape;
  op.gradients = gradients.data;
  op.gradient_type = gradients.dtype;
  op.l2 = of.l2;
  op.rule = of.rule;
  op.partials = scratch_->train.partials.data();
  op.arrivals = scratch_->train.arrivals.data();
  if (op.in_order) {
    op.positions = sorted_positions(*batch_, scratch_->train.sorting.data());
    op.squares = scratch_->train.squares.data();
  }
  return op;
}

double DeviceLookup::squared_gradient_norm(const Context& context, ConstAnyView gradients) {
  check_gradients(gradients);
  Buffer<double>& norm = scratch_->norm;
  cuda_check(cudaMemsetAsync(norm.data(), 0, sizeof(double), context.stream), "zeroing");
  for (size_t c = 0; c < classes_.size(); ++c) {
    if (classes_[c].trainable)
      add_squared_norm(context, *batch_, update_of(c, gradients), norm.data());
  }
  return norm.to_host(context)[0];
}

void DeviceLookup::add_squared_gradient_norm(const Context& context, ConstAnyView gradients,
                                             ExactSum& sum) {
  if (settings_.sums != Sums::kDeterministic)
    return sum.add(squared_gradient_norm(context, gradients));
  check_gradients(gradients);
  auto limbs = zeros<int64_t>(context, kLimbs);
  for (size_t c = 0; c < classes_.size(); ++c) {
    const UpdateRows op = update_of(c, gradients);
    if (classes_[c].trainable && op.most > 0)
      add_exactly(context, squares_in_order(context, *batch_, op), op.most, limbs.data());
  }
  const std::vector<int64_t> added = limbs.to_host(context);
  for (size_t i = 0; i < added.size(); ++i) sum.limbs()[i] += added[i];
}

void DeviceLookup::backward(const Context& context, ConstAnyView gradients, float scale,
                            float learning_rate, int64_t step) {
  const StepScalars scalars{scale, learning_rate, step};
  update(context, gradients, &scalars);
}

void DeviceLookup::set_step(const Context& context, const StepScalars& scalars) {
  check_step(scalars);
  UpdateScalarsOfClasses values{};
  for (size_t c = 0; c < classes_.size(); ++c)
    values[c] = values_of(at_step(classes_[c].rule, scalars.learning_rate, scalars.step),
                          scalars.scale, scalars.step);
  store_scalars(context, values, scratch_->step.data());
}

void DeviceLookup::backward_as_set(const Context& context, ConstAnyView gradients) {
  update(context, gradients, nullptr);
}

// Without scalars, the kernels read those of the last set_step when they run.
void DeviceLookup::update(const Context& context, ConstAnyView gradients,
                          const StepScalars* scalars) {
  check_gradients(gradients);
  if (scalars != nullptr) check_step(*scalars);
  captured_ |= is_capturing(context);
  for (size_t c = 0; c < classes_.size(); ++c) {
    if (!classes_[c].trainable) continue;
    UpdateRows op = update_of(c, gradients);
    if (scalars != nullptr) {
      op.scale = scalars->scale;
      op.rule = at_step(op.rule, scalars->learning_rate, scalars->step);
      if (classes_[c].rounding == Rounding::kStochastic)
        op.rounding_draw = rounding_draw(scalars->step);
    } else {
      op.values = scratch_->step.data() + c;
      // Any but kRoundToNearest; the step's own comes with the values.
      if (classes_[c].rounding == Rounding::kStochastic) op.rounding_draw = 1;
    }
    update_rows(context, *batch_, op);
    for (size_t t = 0; t < tables_.size(); ++t) {
      const DeviceTable& table = *tables_[t];
      if (class_of_table(static_cast<int>(t)) == static_cast<int>(c) &&
          table.settings().l2_on_all_rows && table.settings().l2 != 0.0f)
        update_other_rows(context, table.ref(), table.rows_end(), op);
    }
  }
  wait_for_prefetch(context);
  ready_for_backward_ = false;  // a second update with the same gradients is a mistake
}

}  // namespace emblem::cuda
