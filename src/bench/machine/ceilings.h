// bench/machine/ceilings.h - limits of the hardware, measured in the same process and on the same
// threads as the benchmark that is compared with them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device/context.h"
#include "core/math/half.h"

namespace emblem {

namespace cpu {
struct TileKernel;
}

// Size of a measurement. The defaults take less than a second; tests use smaller ones.
struct CeilingEffort {
  // Size of each buffer; 0: four times the last-level cache, at least 128 MiB.
  int64_t memory_bytes = 0;
  int64_t gemm_size = 1024;  // rows, columns and depth of the product
  double seconds = 0.4;      // time for repetitions; the first two always run
};

// Environment variable: if set, ceilings are measured so briefly that they are not meaningful, for
// runs whose results are only compared with each other (bench/judge/against.h).
inline constexpr char kBriefCeilings[] = "EMBLEM_BRIEF_CEILINGS";
CeilingEffort usual_effort();

// Bytes per second, read and written, of a copy between two buffers larger than the caches.
double measure_copy(const Context& context, const CeilingEffort& effort = usual_effort());

// Bytes per second of rows of `dim` floats read at random from a table larger than the caches, with
// prefetching.
double measure_gather(const Context& context, int64_t dim,
                      const CeilingEffort& effort = usual_effort());

// Rows of a table, to copy in batches.
struct RowCopies {
  int64_t rows = 0;
  int64_t row_floats = 0;                     // from row to row
  int64_t copied_floats = 0;                  // the first of a row
  int64_t copies = 1;                         // buffers of each kind
  int64_t outputs = 1;                        // where batches are copied to in turn
  std::vector<std::vector<int64_t>> batches;  // row numbers
};

// Seconds to copy a batch of rows into consecutive memory, given where they are: by the fastest of
// several prefetch distances.
double measure_row_copies(const Context& context, const RowCopies& of,
                          const CeilingEffort& effort = usual_effort());

// Floating-point operations per second (a multiply-add is two) of a square matrix product of values
// in `type`.
double measure_gemm(const Context& context, DType type = DType::kF32,
                    const CeilingEffort& effort = usual_effort());

// The same of multiply-adds in registers alone: what no product exceeds.
double measure_arithmetic(const Context& context, DType type = DType::kF32,
                          const CeilingEffort& effort = usual_effort());

double measure_arithmetic(const Context& context, const cpu::TileKernel& kernel,
                          const CeilingEffort& effort = usual_effort());

struct Ceilings {
  double copy_bytes_per_second = 0;
  double gather_bytes_per_second = 0;
  double gemm_flops_per_second = 0;
  double arithmetic_flops_per_second = 0;
};

// All of them; rows of `dim` floats for the gather, products in `type`.
Ceilings measure_ceilings(const Context& context, int64_t dim, DType type = DType::kF32,
                          const CeilingEffort& effort = usual_effort());

}  // namespace emblem
