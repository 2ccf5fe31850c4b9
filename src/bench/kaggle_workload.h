// bench/kaggle_workload.h - DLRM on Criteo-Kaggle-sized tables with generated batches: the same
// model and the same numbers as bench/peers/torch_dlrm_cpu.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/batch.h"

namespace emblem {

enum class BenchTables { kStatic, kDynamic };

// The pipeline as text: 13 dense and 26 one-hot features, facebookresearch/dlrm's layers, SGD with
// rate 0.1.
std::string kaggle_pipeline(int64_t dim, int64_t batch, BenchTables tables);

// `count` batches of `rows` rows; keys follow a power law with exponent `alpha`.
std::vector<Batch> kaggle_batches(int64_t count, int64_t rows, double alpha, uint64_t seed);

}  // namespace emblem
