// bench/load/grpc_process.h - how gRPC's client library behaves in this process.
#pragma once

namespace emblem {

// gRPC's own lines go to log_debug: what matters is thrown or answered instead. Its locks stop
// looking for deadlocks, which Debian's build does at every one of them: about 8 us a call. May be
// called again.
void set_up_grpc();

}  // namespace emblem
