#include "bench/load/grpc_module/grpc_target.h"
#include "core/system/module.h"

namespace emblem {

std::unique_ptr<LoadTarget> open_grpc_target(const LoadTargetOptions& options) {
  static const auto open = [] {
    decltype(emblem_open_grpc_target)* function = emblem_open_grpc_target;
    if (function == nullptr)
      load_module("grpc",
                  "--protocol grpc needs it: install libgrpc++-dev and build Emblem with "
                  "-DEMBLEM_GRPC_CLIENT=ON (make build does, the CPU build of make demo does not), "
                  "or use http")
          .find("emblem_open_grpc_target", function);
    return function;
  }();
  return std::unique_ptr<LoadTarget>(open(options));
}

}  // namespace emblem
