// bench/dlrm_workload.h - DLRM with generated batches: the same models and the same numbers as
// bench/peers/torch_dlrm_cpu.py and torch_infer.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/context.h"
#include "data/batch.h"

namespace emblem {

enum class BenchTables { kStatic, kDynamic };

// 13 dense and 26 one-hot features.
struct DlrmShape {
  std::string name;
  std::vector<int64_t> table_rows;
  int64_t dim = 16;
  std::string bottom, top;  // hidden units, "512, 256"

  // Tables of 1 / divisor of the rows, at least 4: for machines with less memory.
  DlrmShape scaled_down(int64_t divisor) const;
  int64_t table_bytes() const;
};

// facebookresearch/dlrm's model for the Criteo Kaggle data, with embeddings of `dim` floats.
DlrmShape kaggle_dlrm(int64_t dim);
// The model of HPS's DLRM benchmark: Criteo 1TB, values that occur 15 times, 15.6 GiB of tables.
DlrmShape hps_dlrm();

// The pipeline as text; SGD with rate 0.1.
std::string dlrm_pipeline(const DlrmShape& shape, int64_t batch, BenchTables tables);

// `count` batches of `rows` rows; keys follow a power law with exponent `alpha`. Made by the
// threads of the context.
std::vector<Batch> dlrm_batches(const DlrmShape& shape, int64_t count, int64_t rows, double alpha,
                                uint64_t seed, const Context& context = {});

}  // namespace emblem
