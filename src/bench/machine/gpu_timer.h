// bench/machine/gpu_timer.h - how long work on a GPU takes, without the time to launch it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/context.h"
#include "core/half.h"

namespace emblem::cuda {

// Captures what `body` enqueues on the context's stream in a graph and replays it `warm_ups` times
// and then `repetitions` times: the seconds of each of these, from events.
std::vector<double> time_replays(const Context& context, int warm_ups, int repetitions,
                                 const std::function<void()>& body);

// Bytes a second of copies in device memory; read and written bytes both count.
double measure_device_copy(const Context& context, int64_t bytes = int64_t{2} << 30);

// Bytes a second from pinned host memory to the device.
double measure_host_to_device(const Context& context, int64_t bytes = int64_t{1} << 29);

// Floating-point operations a second of a square matrix product in this type, sums in fp32.
double measure_device_gemm(const Context& context, DType type, int64_t size = 8192);

}  // namespace emblem::cuda
