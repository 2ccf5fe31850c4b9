#include "comm/nccl/nccl_library.h"
#include "core/system/dynamic_library.h"
#include "emblem/error.h"

namespace emblem::cuda {
namespace {

Nccl load() {
  const DynamicLibrary library("libnccl.so.2",
                               "install NCCL or add its folder to LD_LIBRARY_PATH, or use "
                               "--device-transport staged");
  Nccl found;
  library.find("ncclGetVersion", found.get_version);
  library.find("ncclGetUniqueId", found.get_unique_id);
  library.find("ncclCommInitRank", found.comm_init_rank);
  library.find("ncclCommDestroy", found.comm_destroy);
  library.find("ncclCommAbort", found.comm_abort);
  library.find("ncclCommGetAsyncError", found.comm_get_async_error);
  library.find("ncclGroupStart", found.group_start);
  library.find("ncclGroupEnd", found.group_end);
  library.find("ncclSend", found.send);
  library.find("ncclRecv", found.recv);
  library.find("ncclGetErrorString", found.get_error_string);
  library.find_optional("ncclGetLastError", found.get_last_error);
  return found;
}

}  // namespace

std::string Nccl::version() const {
  int code = 0;
  if (get_version(&code) != kNcclSuccess) return "of unknown version";
  const int major = code < 10000 ? code / 1000 : code / 10000;
  const int minor = code < 10000 ? code % 1000 / 100 : code % 10000 / 100;
  return cat(major, ".", minor, ".", code % 100);
}

const Nccl& nccl() {
  static const Nccl loaded = load();
  return loaded;
}

}  // namespace emblem::cuda
