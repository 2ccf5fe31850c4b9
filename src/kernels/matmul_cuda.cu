#include "kernels/matmul_cuda.h"

#include <cublasLt.h>

#include <algorithm>
#include <limits>

#include "core/device/cuda_check.h"
#include "core/system/dynamic_library.h"

namespace emblem::cuda {
namespace {

// The functions of cuBLASLt, which is loaded when a GPU first needs it: the library takes 200 MB of
// memory and 0.1 s of every start, which runs on the CPU should not pay for.
// clang-format off
#define EMBLEM_CUBLASLT_FUNCTIONS(X) \
  X(cublasLtCreate) X(cublasLtDestroy) X(cublasLtGetStatusName) X(cublasLtMatmul) \
  X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy) \
  X(cublasLtMatmulDescSetAttribute) X(cublasLtMatmulPreferenceCreate) \
  X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy)
// clang-format on

struct CublasLt {
#define EMBLEM_CUBLASLT_MEMBER(name) decltype(&::name) name;
  EMBLEM_CUBLASLT_FUNCTIONS(EMBLEM_CUBLASLT_MEMBER)
#undef EMBLEM_CUBLASLT_MEMBER
};

CublasLt load_cublas_lt() {
  const int major = CUDART_VERSION / 1000;
  const DynamicLibrary library(
      cat("libcublasLt.so.", major),
      cat("matrix products on a GPU need it: install the libraries of CUDA ", major,
          " (in Python: pip install nvidia-cublas), or add their folder to LD_LIBRARY_PATH"));
  CublasLt lt;
#define EMBLEM_CUBLASLT_FIND(name) library.find(#name, lt.name);
  EMBLEM_CUBLASLT_FUNCTIONS(EMBLEM_CUBLASLT_FIND)
#undef EMBLEM_CUBLASLT_FIND
  return lt;
}

// Throws kUnavailable when the library is not there. Thread-safe.
const CublasLt& cublas_lt() {
  static const CublasLt lt = load_cublas_lt();
  return lt;
}

void check(cublasStatus_t status, const char* doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const auto code =
      status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kOutOfMemory : ErrorCode::kInternal;
  throw Error(
      code, cat("cuBLASLt failed while ", doing, ": ", cublas_lt().cublasLtGetStatusName(status)));
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
  void operator()(cublasLtMatrixLayout_t layout) const {
    cublas_lt().cublasLtMatrixLayoutDestroy(layout);
  }
};
using Layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, DestroyLayout>;

// To cuBLAS, whose matrices are column-major, a row-major [rows, cols] one is [cols, rows].
Layout layout_of(DType type, int64_t rows, int64_t cols, int64_t stride = 0) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublas_lt().cublasLtMatrixLayoutCreate(&layout, type_of(type), cols, rows,
                                               stride == 0 ? cols : stride),
        "describing a matrix");
  return Layout(layout);
}

struct DestroyOperation {
  void operator()(cublasLtMatmulDesc_t desc) const { cublas_lt().cublasLtMatmulDescDestroy(desc); }
};
using Operation = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, DestroyOperation>;

struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t p) const {
    cublas_lt().cublasLtMatmulPreferenceDestroy(p);
  }
};
using Preference =
    std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, DestroyPreference>;

// C^T = op(B)^T op(A)^T: B comes first.
Operation operation_of(const MatmulPlan& plan) {
  cublasLtMatmulDesc_t desc = nullptr;
  check(cublas_lt().cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "describing a product");
  Operation operation(desc);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(cublas_lt().cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof(value)),
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
  check(cublas_lt().cublasLtMatmulPreferenceCreate(&created), "planning a product");
  Preference preference(created);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(
        cublas_lt().cublasLtMatmulPreferenceSetAttribute(created, attribute, &value, sizeof(value)),
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

// A point in the work of a stream whose time is kept.
class TimedEvent {
 public:
  TimedEvent() { cuda_check(cudaEventCreate(&event_), "making an event"); }
  ~TimedEvent() { cudaEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;

  void record(const Context& context) const {
    cuda_check(cudaEventRecord(event_, context.stream), "recording an event");
  }
  float since(const TimedEvent& before) const {  // milliseconds; waits
    float time = 0.0f;
    cuda_check(cudaEventSynchronize(event_), "waiting for an event");
    cuda_check(cudaEventElapsedTime(&time, before.event_, event_), "timing a product");
    return time;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

MatmulLibrary::MatmulLibrary() : workspace_(Device::kCuda, kWorkspaceBytes) {
  cublasLtHandle_t handle = nullptr;
  check(cublas_lt().cublasLtCreate(&handle), "starting");
  handle_ = handle;
}

MatmulLibrary::~MatmulLibrary() {
  cublas_lt().cublasLtDestroy(static_cast<cublasLtHandle_t>(handle_));
}

struct Matmul::State {
  const MatmulLibrary& library;
  MatmulPlan plan;
  Operation operation;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes = 0;

  void use(const cublasLtMatmulHeuristicResult_t& found) {
    algorithm = found.algo;
    workspace_bytes = found.workspaceSize;
  }
  // Fills `found` with the best ways first, and returns how many there are; throws where there is
  // none and ought to be.
  int find_ways(cublasLtMatmulHeuristicResult_t* found, int most) const;
  cublasStatus_t enqueue(const Context& context) const;
};

Matmul::Matmul(std::unique_ptr<State> state) : state_(std::move(state)) {}
Matmul::~Matmul() = default;

int Matmul::State::find_ways(cublasLtMatmulHeuristicResult_t* found, int most) const {
  const Preference preference = preference_of(plan);
  int count = 0;
  const cublasStatus_t status = cublas_lt().cublasLtMatmulAlgoGetHeuristic(
      static_cast<cublasLtHandle_t>(library.handle()), operation.get(), b.get(), a.get(), c.get(),
      c.get(), preference.get(), most, found, &count);
  if (status != CUBLAS_STATUS_SUCCESS) count = 0;
  if (count == 0 && plan.epilogue == Epilogue::kNone)
    throw Error(ErrorCode::kInternal,
                cat("cuBLASLt has no product of [", plan.m, ", ", plan.k, "] and [", plan.k, ", ",
                    plan.n, "] in ", name_of(plan.input_type), " (",
                    cublas_lt().cublasLtGetStatusName(status), ")"));
  return count;
}

cublasStatus_t Matmul::State::enqueue(const Context& context) const {
  const float alpha = 1.0f;
  return cublas_lt().cublasLtMatmul(static_cast<cublasLtHandle_t>(library.handle()),
                                    operation.get(), &alpha, plan.b, b.get(), plan.a, a.get(),
                                    &plan.beta, plan.c, c.get(), plan.c, c.get(), &algorithm,
                                    library.workspace(), workspace_bytes, context.stream);
}

std::unique_ptr<Matmul::State> Matmul::describe(const MatmulLibrary& library,
                                                const MatmulPlan& plan) {
  const bool turn_a = plan.transpose_a == Transpose::kYes,
             turn_b = plan.transpose_b == Transpose::kYes;
  return std::make_unique<State>(State{
      library, plan, operation_of(plan),
      layout_of(plan.input_type, turn_a ? plan.k : plan.m, turn_a ? plan.m : plan.k),
      layout_of(plan.input_type, turn_b ? plan.n : plan.k, turn_b ? plan.k : plan.n, plan.b_stride),
      layout_of(plan.output_type, plan.m, plan.n, plan.c_stride)});
}

std::unique_ptr<Matmul> Matmul::plan(const MatmulLibrary& library, const MatmulPlan& plan) {
  auto state = describe(library, plan);
  cublasLtMatmulHeuristicResult_t way{};
  if (state->find_ways(&way, 1) == 0) return nullptr;
  state->use(way);
  return std::unique_ptr<Matmul>(new Matmul(std::move(state)));
}

std::unique_ptr<Matmul> Matmul::plan_fastest(const Context& context, const MatmulLibrary& library,
                                             const MatmulPlan& plan) {
  constexpr int kWays = 8, kRuns = 5;
  auto state = describe(library, plan);
  cublasLtMatmulHeuristicResult_t ways[kWays] = {};
  const int count = state->find_ways(ways, kWays);
  if (count == 0) return nullptr;
  int best = 0;
  float shortest = std::numeric_limits<float>::max();
  const TimedEvent begin, end;
  for (int i = 0; i < count; ++i) {
    state->use(ways[i]);
    if (state->enqueue(context) != CUBLAS_STATUS_SUCCESS) continue;
    begin.record(context);
    for (int run = 0; run < kRuns; ++run) state->enqueue(context);
    end.record(context);
    const float time = end.since(begin);
    if (time < shortest) {
      shortest = time;
      best = i;
    }
  }
  state->use(ways[best]);
  return std::unique_ptr<Matmul>(new Matmul(std::move(state)));
}

void Matmul::run(const Context& context) const {
  check(state_->enqueue(context), "multiplying matrices");
}

}  // namespace emblem::cuda
