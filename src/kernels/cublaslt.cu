#include "kernels/cublaslt.h"

#include <dlfcn.h>

#include <string>

#include "emblem/error.h"

namespace emblem::cuda {
namespace {

class Library {
 public:
  explicit Library(std::string name)
      : name_(std::move(name)), handle_(::dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
      throw Error(ErrorCode::kUnavailable,
                  cat("cannot load ", name_, ", which products on a GPU need: ", ::dlerror(),
                      "; install the libraries of CUDA ", CUDART_VERSION / 1000,
                      " or add their folder to LD_LIBRARY_PATH"));
    }
  }

  template <class Function>
  void find(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(::dlsym(handle_, symbol));
    if (function == nullptr)
      throw Error(ErrorCode::kUnavailable, cat(name_, " has no function ", symbol));
  }

 private:
  std::string name_;
  void* handle_;  // stays open: functions of it are in use until the end
};

CublasLt load() {
  const Library library(cat("libcublasLt.so.", CUDART_VERSION / 1000));
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
