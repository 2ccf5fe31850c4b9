#include "bench/load/grpc_process.h"

#include <absl/synchronization/mutex.h>
#include <grpc/support/log.h>

#include "core/log.h"
#include "emblem/error.h"

namespace emblem {

void set_up_grpc() {
  gpr_set_log_function([](gpr_log_func_args* line) {
    try {
      log_debug(cat("gRPC: ", line->message));
    } catch (...) {  // no memory for the line
    }
  });
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace emblem
