#include "kernels/matmul_cuda.h"

#include <algorithm>

#include "core/cuda_check.h"
#include "kernels/cublaslt.h"

namespace emblem::cuda {
namespace {

void check(cublasStatus_t status, const char* doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const auto code =
      status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kOutOfMemory : ErrorCode::kInternal;
  throw Error(code, cat("cuBLASLt failed while ", doing, ": ", cublas_lt().status_name(status)));
}

cudaDataType_t type_of(DType type) {
  return type == DType::kF32 ? CUDA_R_32F : type == DType::kF16 ? CUDA_R_16F : CUDA_R_16BF;
}

cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kRelu:
      return CUBLASLT_EPILOGUE_RELU;
    case Epilogue::kBiasRelu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// The largest power of two, up to 256, that divides an address.
uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data) | 256;
  return static_cast<uint32_t>(address & (~address + 1));
}

struct DestroyLayout {
  void operator()(cublasLtMatrixLayout_t layout) const { cublas_lt().layout_destroy(layout); }
};
using Layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, DestroyLayout>;

// To cuBLAS, whose matrices are column-major, a row-major [rows, cols] one is [cols, rows].
Layout layout_of(DType type, int64_t rows, int64_t cols) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublas_lt().layout_create(&layout, type_of(type), cols, rows, cols), "describing a matrix");
  return Layout(layout);
}

struct DestroyOperation {
  void operator()(cublasLtMatmulDesc_t desc) const { cublas_lt().desc_destroy(desc); }
};
using Operation = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, DestroyOperation>;

struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t p) const { cublas_lt().preference_destroy(p); }
};
using Preference =
    std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, DestroyPreference>;

// C^T = op(B)^T op(A)^T: B comes first.
Operation operation_of(const MatmulPlan& plan) {
  cublasLtMatmulDesc_t desc = nullptr;
  check(cublas_lt().desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  Operation operation(desc);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(cublas_lt().desc_set_attribute(desc, attribute, &value, sizeof(value)),
          "describing a product");
  };
  const auto turned = [](Transpose t) { return t == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(CUBLASLT_MATMUL_DESC_TRANSA, turned(plan.transpose_b));
  set(CUBLASLT_MATMUL_DESC_TRANSB, turned(plan.transpose_a));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(plan.epilogue));
  if (plan.vector != nullptr) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, plan.vector);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(plan.output_type));
  }
  return operation;
}

Preference preference_of(const MatmulPlan& plan) {
  cublasLtMatmulPreference_t created = nullptr;
  check(cublas_lt().preference_create(&created), "planning a product");
  Preference preference(created);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublas_lt().preference_set_attribute(created, attribute, &value, sizeof(value)),
          "planning a product");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<uint64_t>(MatmulLibrary::kWorkspaceBytes));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(plan.b));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(plan.a));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(plan.c));
  // A bias is read together with the product.
  const uint32_t with_vector = plan.vector == nullptr
                                   ? alignment_of(plan.c)
                                   : std::min(alignment_of(plan.c), alignment_of(plan.vector));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, with_vector);
  return preference;
}

}  // namespace

MatmulLibrary::MatmulLibrary() : workspace_(Device::kCuda, kWorkspaceBytes) {
  cublasLtHandle_t handle = nullptr;
  check(cublas_lt().create(&handle), "starting");
  handle_ = handle;
}

MatmulLibrary::~MatmulLibrary() { cublas_lt().destroy(static_cast<cublasLtHandle_t>(handle_)); }

struct Matmul::State {
  const MatmulLibrary& library;
  MatmulPlan plan;
  Operation operation;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes = 0;
};

Matmul::Matmul(std::unique_ptr<State> state) : state_(std::move(state)) {}
Matmul::~Matmul() = default;

std::unique_ptr<Matmul> Matmul::plan(const MatmulLibrary& library, const MatmulPlan& plan) {
  const bool turn_a = plan.transpose_a == Transpose::kYes,
             turn_b = plan.transpose_b == Transpose::kYes;
  auto state = std::make_unique<State>(
      State{library, plan, operation_of(plan),
            layout_of(plan.input_type, turn_a ? plan.k : plan.m, turn_a ? plan.m : plan.k),
            layout_of(plan.input_type, turn_b ? plan.n : plan.k, turn_b ? plan.k : plan.n),
            layout_of(plan.output_type, plan.m, plan.n)});
  const Preference preference = preference_of(plan);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublas_lt().algo_get_heuristic(
      static_cast<cublasLtHandle_t>(library.handle()), state->operation.get(), state->b.get(),
      state->a.get(), state->c.get(), state->c.get(), preference.get(), 1, &found, &count);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
    if (plan.epilogue != Epilogue::kNone) return nullptr;
    throw Error(
        ErrorCode::kInternal,
        cat("cuBLASLt has no product of [", plan.m, ", ", plan.k, "] and [", plan.k, ", ", plan.n,
            "] in ", name_of(plan.input_type), " (", cublas_lt().status_name(status), ")"));
  }
  state->algorithm = found.algo;
  state->workspace_bytes = found.workspaceSize;
  return std::unique_ptr<Matmul>(new Matmul(std::move(state)));
}

void Matmul::run(const Context& context) const {
  const State& s = *state_;
  const float alpha = 1.0f;
  check(cublas_lt().matmul(static_cast<cublasLtHandle_t>(s.library.handle()), s.operation.get(),
                           &alpha, s.plan.b, s.b.get(), s.plan.a, s.a.get(), &s.plan.beta, s.plan.c,
                           s.c.get(), s.plan.c, s.c.get(), &s.algorithm, s.library.workspace(),
                           s.workspace_bytes, context.stream),
        "multiplying matrices");
}

}  // namespace emblem::cuda
