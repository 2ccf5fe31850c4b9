// serve/protocol/status.h - errors as the protocols name them.
#pragma once

#include <string_view>

#include "emblem/error.h"

namespace emblem {

int http_status(ErrorCode code);
// A grpc::StatusCode; an int so that only the gRPC front end needs its headers.
int grpc_status(ErrorCode code);

// The beginning of a message, in whole characters: messages quote names that clients chose, and in
// gRPC's trailers, of which clients accept 8 KiB, each byte may take three.
std::string_view shortened(std::string_view message);

}  // namespace emblem
