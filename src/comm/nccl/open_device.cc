#include "comm/nccl/open_device.h"

#include <algorithm>

#include "comm/nccl/nccl.h"
#include "comm/nccl/nccl_library.h"
#include "comm/nccl/staged.h"
#include "core/device/gpu.h"
#include "core/system/log.h"

namespace emblem {
namespace {

// Equal on all ranks. Rank 0 says why NCCL is not used.
bool every_rank_has_nccl(Communicator& control) {
  std::string problem;
  try {
    cuda::nccl();
  } catch (const Error& error) {
    problem = error.what();
  }
  char mine = problem.empty() ? 1 : 0;
  std::vector<char> all(static_cast<size_t>(control.size()));
  control.gather_all(Context{}, {&mine, 1}, {all.data(), all.size()});
  const auto lacking = std::find(all.begin(), all.end(), 0);
  if (lacking == all.end()) return true;
  const auto rank = static_cast<size_t>(lacking - all.begin());
  if (control.rank() == 0)
    log_warn(cat("GPU memory is exchanged through host memory, which is slow: ",
                 rank == 0 ? problem
                           : name_of_rank(static_cast<int>(rank), control.hosts()[rank].name) +
                                 " cannot load NCCL"));
  return false;
}

// Equal on all ranks.
bool is_nccl_faster(Communicator& control) {
  return can_use_nccl(control, gather_gpus(control, cuda::gpu_uuid())) &&
         every_rank_has_nccl(control);
}

std::unique_ptr<Communicator> open_for_gpu(Communicator& control, const std::string& transport,
                                           double collective_seconds,
                                           const SetVariable& set_variable) {
  if (transport == "nccl" || (transport == "auto" && is_nccl_faster(control)))
    return cuda::connect_by_nccl(control, collective_seconds, set_variable);
  return cuda::stage_through_host(control);
}

}  // namespace

bool can_use_nccl(const Communicator& control, std::span<const GpuId> gpus) {
  const size_t sharing = ranks_that_share(gpus);
  if (sharing > 0 && control.rank() == 0)
    log_info(cat(sharing,
                 " ranks share a GPU with another: GPU memory is exchanged through host memory"));
  return sharing == 0;
}

std::unique_ptr<Communicator> open_device_communicator(const Context& context,
                                                       Communicator& control,
                                                       const std::string& transport,
                                                       double collective_seconds,
                                                       const SetVariable& set_variable) {
  EMBLEM_REQUIRE(transport == "auto" || transport == "nccl" || transport == "staged",
                 "unknown transport of GPU memory \"", transport,
                 "\"; expected auto, nccl or staged");
  const bool is_reached =
      context.device == Device::kCpu || control.transport() == std::string("threads");
  if (is_reached && transport == "auto") return nullptr;
  return dispatch(
      context.device,
      [&]() -> std::unique_ptr<Communicator> {
        throw Error(ErrorCode::kInvalidArgument,
                    cat("transport ", transport, " is for GPU memory; use --device cuda"));
      },
      [&] { return open_for_gpu(control, transport, collective_seconds, set_variable); });
}

}  // namespace emblem
