// What builds without gRPC's client library have instead.
#include "bench/load/target.h"
#include "emblem/error.h"

namespace emblem {

std::unique_ptr<LoadTarget> open_grpc_target(const LoadTargetOptions&) {
  throw Error(ErrorCode::kUnsupported,
              "--protocol grpc needs a build with gRPC's library (libgrpc++-dev); use http");
}

}  // namespace emblem
