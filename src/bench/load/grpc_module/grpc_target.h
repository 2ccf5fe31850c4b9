// bench/load/grpc_module/grpc_target.h - what libemblem_grpc.so offers. It contains all code that
// calls gRPC's client library; what it uses of Emblem is in libemblem.so.
#pragma once

#include "bench/load/target.h"

// Weak: null unless the program is linked to it, as tests are.
extern "C" __attribute__((weak, visibility("default"))) emblem::LoadTarget*
emblem_open_grpc_target(const emblem::LoadTargetOptions& options);
