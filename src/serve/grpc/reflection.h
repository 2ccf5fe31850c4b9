// serve/grpc/reflection.h - tells clients such as grpcurl which services and messages there are.
#pragma once

#include "serve/grpc/reflection.pb.h"

namespace emblem {

// What is not known is said in the response. Thread-safe.
grpc::reflection::v1::ServerReflectionResponse reflect(
    const grpc::reflection::v1::ServerReflectionRequest& request);

}  // namespace emblem
