// core/device/host_device.h - marks formulas that both backends compile.
#pragma once

#ifdef __CUDACC__
#define EMBLEM_HD __host__ __device__
#else
#define EMBLEM_HD
#endif
