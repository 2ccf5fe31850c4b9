// core/device/cpu_level.h - levels of instruction sets, by the names that compilers and loaders
// use: x86-64, x86-64-v2 (SSE4.2), x86-64-v3 (AVX2), x86-64-v4 (AVX-512); armv8-a.
#pragma once

#include <string_view>

namespace emblem {

// That this library was compiled for; "native": for the CPU of the machine that compiled it.
std::string_view compiled_level();

// The highest that this CPU can run; "" where there are none.
std::string_view cpu_level();

}  // namespace emblem
