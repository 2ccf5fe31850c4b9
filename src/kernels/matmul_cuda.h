// kernels/matmul_cuda.h - products of row-major matrices on the GPU, by cuBLASLt, together with
// what follows them.
//
// A product is planned once, for given places and shapes, and run many times; running allocates
// nothing and waits for nothing. The same inputs give the same bytes.
#pragma once

#include <cstdint>
#include <memory>

#include "core/math/half.h"
#include "core/memory/buffer.h"
#include "kernels/gemm.h"

namespace emblem::cuda {

// cuBLASLt and the memory it works in. Products of one library run on one stream at a time.
class MatmulLibrary {
 public:
  MatmulLibrary();
  ~MatmulLibrary();
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;

  void* handle() const { return handle_; }
  char* workspace() const { return const_cast<char*>(workspace_.data()); }
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

 private:
  void* handle_ = nullptr;
  Buffer<char> workspace_;
};

// What is done to the product C [m, n] on the way.
enum class Epilogue {
  kNone,
  kBias,      // C + vector, [n]
  kRelu,      // max(C, 0)
  kBiasRelu,  // max(C + vector, 0)
};

// C = op(A) op(B) + beta C, of matrices without gaps between their rows but for B and C where their
// strides say so.
struct MatmulPlan {
  int64_t m = 0, n = 0, k = 0;  // C is [m, n], k the inner dimension; none may be 0
  Transpose transpose_a = Transpose::kNo, transpose_b = Transpose::kNo;
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  DType input_type = DType::kF32, output_type = DType::kF32;  // sums are made in fp32
  float beta = 0.0f;
  Epilogue epilogue = Epilogue::kNone;
  void* vector = nullptr;              // vector of output_type
  int64_t b_stride = 0, c_stride = 0;  // elements from one row to the next; 0: no gaps
};

class Matmul {
 public:
  // Null where cuBLASLt has no such product; without an epilogue it always has.
  static std::unique_ptr<Matmul> plan(const MatmulLibrary& library, const MatmulPlan& plan);
  // Chooses the fastest of the ways that cuBLASLt thinks best; which may be another next time,
  // and with it the last bits. Runs the product several times, which beta must allow, and
  // waits.
  static std::unique_ptr<Matmul> plan_fastest(const Context& context, const MatmulLibrary& library,
                                              const MatmulPlan& plan);
  ~Matmul();

  void run(const Context& context) const;

 private:
  struct State;
  static std::unique_ptr<State> describe(const MatmulLibrary& library, const MatmulPlan& plan);
  explicit Matmul(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace emblem::cuda
