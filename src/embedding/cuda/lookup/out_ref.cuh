// embedding/cuda/lookup/out_ref.cuh - where the kernels of a lookup write their output: 32 or 16
// bits.
#pragma once

#include "embedding/cuda/table/row_vector.cuh"

namespace emblem::cuda {

// Elements of `dtype`, which is the same for a whole launch.
struct OutRef {
  void* data;
  DType dtype;

  __device__ OutRef from(int64_t element) const {
    return {static_cast<char*>(data) + element * (dtype == DType::kF32 ? 4 : 2), dtype};
  }
  // Streaming stores: no kernel of the lookup reads the output again.
  template <int kVector>
  __device__ void put(int64_t element, const Floats<kVector>& v) const {
    if (dtype == DType::kF32)
      stream_floats<kVector>(static_cast<float*>(data) + element, v);
    else if (dtype == DType::kF16)
      stream_floats<kVector>(static_cast<F16*>(data) + element, v);
    else
      stream_floats<kVector>(static_cast<Bf16*>(data) + element, v);
  }
  __device__ void put(int64_t element, float value) const { put<1>(element, Floats<1>{{value}}); }
};

}  // namespace emblem::cuda
