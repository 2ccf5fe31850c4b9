// core/device/device.h - where memory lives, and the only CPU/CUDA switch in emblem.
#pragma once

#include <ostream>

#include "emblem/error.h"

namespace emblem {

#ifdef EMBLEM_WITH_CUDA
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = false;
#endif

enum class Device { kCpu, kCuda };

inline std::ostream& operator<<(std::ostream& out, Device device) {
  return out << (device == Device::kCpu ? "cpu" : "cuda");
}

// Calls `cpu()` or `cuda()` by `device`. In a build without CUDA the `cuda` branch is discarded
// at compile time, so no stub functions and no #ifdef are needed at the call site.
template <class Cpu, class Cuda>
decltype(auto) dispatch(Device device, Cpu&& cpu, [[maybe_unused]] Cuda&& cuda) {
  if (device == Device::kCpu) return cpu();
  if constexpr (kHasCuda) {
    return cuda();
  } else {
    throw Error(ErrorCode::kInvalidArgument,
                "this program was built without CUDA; use --device cpu, or build it with "
                "-DEMBLEM_CUDA=ON");
  }
}

}  // namespace emblem
