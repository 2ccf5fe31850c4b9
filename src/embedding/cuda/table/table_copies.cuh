// embedding/cuda/table/table_copies.cuh - what host functions that read or change a table share.
#pragma once

#include <algorithm>
#include <span>

#include "core/device/blocks.h"
#include "core/device/cuda_check.h"
#include "core/memory/buffer.h"

namespace emblem::cuda {

inline constexpr int kTableThreads = 256;  // threads of a block
inline constexpr int kTableWarps = kTableThreads / 32;

// Asynchronous copies; the host's memory must stay until the stream has been synchronized. The
// buffer has room for at least one value.
template <class T>
Buffer<T> upload(const Context& context, std::span<const T> values) {
  Buffer<T> buffer(Device::kCuda, std::max<int64_t>(1, static_cast<int64_t>(values.size())));
  ::emblem::detail::copy(context, buffer.data(), values.data(), values.size_bytes());
  return buffer;
}
template <class T>
void download(const Context& context, const Buffer<T>& from, std::span<T> to) {
  ::emblem::detail::copy(context, to.data(), from.data(), to.size_bytes());
}

}  // namespace emblem::cuda
