#include "embedding/cuda/update/update_scalars.h"

#include "core/device/cuda_check.h"
#include "embedding/cuda/lookup/device_batch.cuh"
#include "embedding/rounding.h"

namespace emblem::cuda {
namespace {

static_assert(std::tuple_size_v<UpdateScalarsOfClasses> == kMostClasses);

// Kernel arguments are copied at launch, so no host memory has to stay unchanged until the copy.
__global__ void store_values_kernel(UpdateScalarsOfClasses values, UpdateScalars* to) {
  to[threadIdx.x] = values[threadIdx.x];
}

}  // namespace

UpdateScalars values_of(const Rule& at_step, float scale, int64_t step) {
  UpdateScalars values;
  values.scale = scale;
  values.rounding_draw = rounding_draw(step);
  std::visit(
      [&](const auto& rule) {
        values.learning_rate = rule.learning_rate;
        if constexpr (kHasCorrections<std::decay_t<decltype(rule)>>) {
          values.correction1 = rule.correction1;
          values.correction2 = rule.correction2;
        }
      },
      at_step);
  if (const auto* momentum = std::get_if<Momentum>(&at_step))
    values.dampening = momentum->dampening;
  return values;
}

void store_scalars(const Context& context, const UpdateScalarsOfClasses& values,
                   UpdateScalars* to) {
  store_values_kernel<<<1, kMostClasses, 0, context.stream>>>(values, to);
  cuda_check(cudaGetLastError(), "launching store_values_kernel");
}

}  // namespace emblem::cuda
