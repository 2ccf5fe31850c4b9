// nn/ops/interaction/cin_tensor.cuh - a CIN layer in 16 bits on tensor cores.
#pragma once

#include "nn/ops/vectors/vectors_tensor.cuh"

namespace emblem::cuda {

struct CinShape {
  int64_t rows;
  int n, m, units, dim;  // vectors of x, of x0 and of the output
};

// Whether a warp's sums of both gradients fit into shared memory.
constexpr int kMostCinVectors = 192;
template <class T>
bool fits_cin_tensor_cores(const CinShape& s) {
  return fits_tensor_cores<T>(s.dim) && s.n + s.m <= kMostCinVectors;
}

// The workspace of the first two has cin_tile_floats() floats (vectors.h).
template <class T>
void cin_forward(const Context& context, const CinShape& shape, const T* weight, const float* bias,
                 const T* x, const T* x0, float* workspace, T* y);

template <class T>
struct CinGradient {
  Write write;
  T* to;
};
template <class T>
void cin_input_gradients(const Context& context, const CinShape& shape, const T* weight, const T* x,
                         const T* x0, const T* dy, float* workspace, CinGradient<T> to_x,
                         CinGradient<T> to_x0);

template <class T>
void cin_weight_gradient(const Context& context, const CinShape& shape, const T* x, const T* x0,
                         const T* dy, float* workspace, float* to);

}  // namespace emblem::cuda
