// nn/inference/layers.h - layers as inference runs them on a GPU, where they differ from those of
// training. CUDA builds only. All are asynchronous.
#pragma once

#include <cstdint>

#include "core/device/context.h"
#include "core/math/half.h"
#include "nn/graph.h"

namespace emblem::cuda {

// y = activation(x W^T + b) of few inputs, which come in fp32: a first layer. It may run in
// parallel to the kernel before it, whose results it does not read.
struct FirstLayer {
  DType dtype = DType::kF32;  // type of y
  Activation activation = Activation::kNone;
  int64_t rows = 0, inputs = 0, units = 0;
  const float *x = nullptr, *weight = nullptr, *bias = nullptr;  // bias may be null
  void* y = nullptr;
};
inline constexpr int64_t kMostFirstInputs = 32;
void run_first_layer(const Context& context, const FirstLayer& layer);

// y = activation(x W^T + b) of few rows in 16 bits. Inputs are a multiple of 32, units of 8.
struct FewRowsLayer {
  DType dtype = DType::kF16;
  Activation activation = Activation::kNone;
  int64_t rows = 0, inputs = 0, units = 0;
  const void *x = nullptr, *weight = nullptr;  // [rows, inputs], [units, inputs]
  const float* bias = nullptr;                 // or null
  void* y = nullptr;
};
inline constexpr int64_t kFewRows = 128;
bool can_run_few_rows(DType dtype, int64_t rows, int64_t inputs, int64_t units);
void run_few_rows(const Context& context, const FewRowsLayer& layer);

// probabilities = sigmoid(x w + b), or sigmoid(x) without a weight. They may go to host memory.
struct LastLayer {
  DType dtype = DType::kF32;  // type of x
  int64_t rows = 0, inputs = 1;
  const void* x = nullptr;
  const float *weight = nullptr, *bias = nullptr;  // or null
  float* probabilities = nullptr;
  // Host memory that becomes 1 when all probabilities are there, or null: who watches it knows
  // sooner than who waits for the stream. `finished`: device memory, 0 before and after.
  uint32_t *done = nullptr, *finished = nullptr;
};
void run_last_layer(const Context& context, const LastLayer& layer);

}  // namespace emblem::cuda
