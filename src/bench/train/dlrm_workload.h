// bench/train/dlrm_workload.h - DLRM with generated batches: the same models and the same numbers
// as bench/peers/torch_dlrm_cpu.py, torch_dlrm_gpu.py and torch_infer.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/context.h"
#include "data/batch.h"

namespace emblem {

enum class BenchTables { kStatic, kDynamic };

// 13 dense and 26 sparse features.
struct DlrmShape {
  std::string name;
  std::vector<int64_t> table_rows;
  int64_t dim = 16;
  std::string bottom, top;       // hidden units, "512, 256"
  std::vector<int64_t> hotness;  // keys a sample of each feature; empty: one
  int64_t cross_rank = 0;        // 3 cross layers of this rank in place of dot products; 0: none
  std::string model;             // another than DLRM: what a pipeline's model_config has

  // Tables of 1 / divisor of the rows, but 4 where they have them: for machines with less memory.
  DlrmShape scaled_down(int64_t divisor) const;
  int64_t rows() const;  // of all tables
  int64_t table_bytes() const;
  int64_t hotness_of(size_t feature) const { return hotness.empty() ? 1 : hotness[feature]; }
};

// facebookresearch/dlrm's model for the Criteo Kaggle data, with embeddings of `dim` floats.
DlrmShape kaggle_dlrm(int64_t dim);
// The model of HPS's DLRM benchmark: Criteo 1TB, values that occur 15 times, 15.6 GiB of tables.
DlrmShape hps_dlrm();
// The same model, as NVIDIA's DeepLearningExamples train it.
DlrmShape dle_dlrm();
// The model of SOK's DLRM benchmark: Criteo 1TB, values modulo 40 M, 187,767,399 rows.
DlrmShape sok_dlrm();
// Other models over the same tables, with rows of 16 and three layers of 1024: dnn, wide-and-deep,
// deepfm, dcn or dcnv2, behind "criteo-".
DlrmShape criteo_model(const std::string& name);
const std::vector<std::string>& criteo_models();
// MLPerf's DLRM-DCNv2: 214 keys a sample, tables of up to 40 M rows, 3 cross layers of rank 512.
DlrmShape mlperf_dcnv2();

// What is trained with. Rates are small enough for random labels.
struct DlrmTraining {
  BenchTables tables = BenchTables::kStatic;
  std::string optimizer = "sgd";  // of embeddings: sgd, adagrad, rowwise_adagrad or adam
  // Dynamic tables: room for all rows from the start; a limit, as those need that are cached.
  bool reserved = false, bounded = false;
};

// The pipeline as text, over Raw files.
std::string dlrm_pipeline(const DlrmShape& shape, int64_t batch, const DlrmTraining& training);
inline std::string dlrm_pipeline(const DlrmShape& shape, int64_t batch, BenchTables tables) {
  return dlrm_pipeline(shape, batch, DlrmTraining{.tables = tables});
}

// `count` batches of `rows` rows; keys follow a power law with exponent `alpha`. Made by the
// threads of the context, with the same numbers for any number of them.
std::vector<Batch> dlrm_batches(const Context& context, const DlrmShape& shape, int64_t count,
                                int64_t rows, double alpha, uint64_t seed);

}  // namespace emblem
