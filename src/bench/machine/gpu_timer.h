// bench/machine/gpu_timer.h - the time of work on a GPU without launch overhead.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/device/context.h"
#include "core/math/half.h"

namespace emblem::cuda {

// Captures the work that `body` enqueues on the context's stream as a CUDA graph, replays it
// `warm_ups` times and then `repetitions` times. Returns the seconds of each repetition, by events.
std::vector<double> time_replays(const Context& context, int warm_ups, int repetitions,
                                 const std::function<void()>& body);

// Bytes per second, read and written, of copies in device memory.
double measure_device_copy(const Context& context, int64_t bytes = int64_t{2} << 30);

// Bytes per second from pinned host memory to the device.
double measure_host_to_device(const Context& context, int64_t bytes = int64_t{1} << 29);

// Floating-point operations per second of a square matrix product in this type, accumulated in
// fp32.
double measure_device_gemm(const Context& context, DType type, int64_t size = 8192);

}  // namespace emblem::cuda
