#include "kernels/cublaslt.h"

#include "core/system/dynamic_library.h"
#include "emblem/error.h"

namespace emblem::cuda {
namespace {

CublasLt load() {
  const int major = CUDART_VERSION / 1000;
  const DynamicLibrary library(
      cat("libcublasLt.so.", major),
      cat("matrix products on a GPU need it: install the libraries of CUDA ", major,
          " (in Python: pip install nvidia-cublas), or add their folder to LD_LIBRARY_PATH"));
  CublasLt lt;
  library.find("cublasLtCreate", lt.create);
  library.find("cublasLtDestroy", lt.destroy);
  library.find("cublasLtGetStatusName", lt.status_name);
  library.find("cublasLtMatmul", lt.matmul);
  library.find("cublasLtMatmulAlgoGetHeuristic", lt.algo_get_heuristic);
  library.find("cublasLtMatmulDescCreate", lt.desc_create);
  library.find("cublasLtMatmulDescDestroy", lt.desc_destroy);
  library.find("cublasLtMatmulDescSetAttribute", lt.desc_set_attribute);
  library.find("cublasLtMatmulPreferenceCreate", lt.preference_create);
  library.find("cublasLtMatmulPreferenceDestroy", lt.preference_destroy);
  library.find("cublasLtMatmulPreferenceSetAttribute", lt.preference_set_attribute);
  library.find("cublasLtMatrixLayoutCreate", lt.layout_create);
  library.find("cublasLtMatrixLayoutDestroy", lt.layout_destroy);
  return lt;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt lt = load();
  return lt;
}

}  // namespace emblem::cuda
