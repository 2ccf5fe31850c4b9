// serve/protocol/status.h - errors as the protocols name them.
#pragma once

#include "emblem/error.h"

namespace emblem {

int http_status(ErrorCode code);
// A grpc::StatusCode; an int so that only the gRPC front end needs its headers.
int grpc_status(ErrorCode code);

}  // namespace emblem
