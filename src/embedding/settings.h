// embedding/settings.h - the settings of tables and lookups.
#pragma once

#include <cstdint>
#include <string>

#include "core/device/host_device.h"
#include "core/math/half.h"
#include "core/math/random.h"
#include "embedding/parts.h"
#include "optim/rule.h"

namespace emblem {

// The initial value of a weight is a function of (seed, key, position), so that it depends neither
// on the order of insertion nor on the device.
struct Initializer {
  enum class Kind { kUniform, kNormal, kTruncatedNormal, kConstant };
  Kind kind = Kind::kUniform;
  float a = -0.01f;   // uniform: lower; normal: mean; constant: the value
  float b = 0.01f;    // uniform: upper; normal: standard deviation (truncated at two of them)
  int64_t first = 0;  // added to positions: of a table with some columns of another

  EMBLEM_HD float operator()(uint64_t seed, uint64_t key, int64_t position) const {
    position += first;
    switch (kind) {
      case Kind::kUniform:
        return a + (b - a) * random_uniform(seed, key, position);
      case Kind::kNormal:
        return a + b * random_normal(seed, key, position);
      case Kind::kTruncatedNormal:
        for (uint64_t draw = 0;; ++draw) {
          const float z = random_normal(seed + draw * 0x632be59bd9b4e019ull, key, position);
          if (z >= -2.0f && z <= 2.0f) return a + b * z;
        }
      case Kind::kConstant:
        return a;
    }
    return 0.0f;
  }
};

enum class TableKind { kStatic, kDynamic };  // a static table's key is its row number
enum class Eviction { kNone, kLru, kLfu, kStep, kCustom };
enum class Pooling { kSum, kMean };
enum class Rounding { kToNearest, kStochastic };  // embedding/rounding.h
// Where a table on a GPU has its rows: all in device memory; all in host memory, with a cache of
// `device_bytes` in device memory; or all in host memory, with a cache for about the rows of one
// pass.
enum class Placement { kDevice, kCache, kHost };

// Columns [first, first + dim) of rows with `of` columns; 0: these are all.
struct ColumnSlice {
  int64_t first = 0;
  int64_t of = 0;
};

struct TableSettings {
  std::string name;
  int64_t dim = 0;
  DType dtype = DType::kF32;  // type of the weights; optimizer state is always fp32
  TableKind kind = TableKind::kStatic;
  int64_t capacity = 0;                 // static: rows. Dynamic: most rows, 0 = no limit
  int64_t initial_capacity = 0;         // dynamic: rows to allocate at the beginning
  Eviction eviction = Eviction::kNone;  // dynamic, with a capacity: when it is reached
  int64_t admission_threshold = 0;  // a key gets a row at this occurrence; 0 and 1: at the first
  int64_t admission_capacity = 0;   // most keys to count; 0: as many as capacity
  Initializer initializer;
  Initializer missing = {Initializer::Kind::kConstant, 0.0f,
                         0.0f};      // what evaluation reads for unknown keys
  Rule rule = Sgd{};                 // which optimizer; its learning rate comes with each step
  float initial_accumulator = 0.0f;  // initial accumulator of AdaGrad, for new rows
  Rounding rounding = Rounding::kToNearest;  // rounding of updated weights in 16 bits
  float l2 = 0.0f;                           // adds l2 * w to the gradient of the batch's rows ...
  bool l2_on_all_rows = false;               // ... or of all rows, at every step
  bool trainable = true;
  uint64_t seed = 1;
  Placement placement = Placement::kDevice;
  int64_t device_bytes = 0;  // with Placement::kCache: for rows
  PartRange held;            // keys of other parts are never given to it
  int32_t bins = 0;          // within which keys are evicted (embedding/bins.h); 0: one for all
  ColumnSlice columns;       // it is a slice of another table

  // Most keys that wait for admission; 0: no limit.
  int64_t most_waiting() const { return admission_capacity != 0 ? admission_capacity : capacity; }
  // Columns of the whole rows that files have.
  int64_t row_dim() const { return columns.of > 0 ? columns.of : dim; }
};

// How gradients are summed on a GPU. On a CPU every run gives the same bytes. With kFast, rows with
// many gradients in a batch and the norm of the gradients may differ in their last bits from run to
// run, because they are added in the order in which threads arrive; kDeterministic sorts them
// first.
enum class Sums { kFast, kDeterministic };

// When host threads move rows between host memory and the GPU, and how (transfer/host_transfer.h).
struct TransferSettings {
  int64_t min_rows = 4096;  // fewer are moved by the GPU itself
  // Bytes of one request; larger where these would be too many.
  int64_t piece_bytes = 4 << 20;
  int64_t max_buffer_bytes = 192 << 20;  // limit of a staging buffer
  int64_t direct_rows = 6;  // rows of every 16 to fetch that the GPU reads itself meanwhile
};

struct LookupSettings {
  Sums sums = Sums::kFast;
  TransferSettings transfer;
  // On a GPU: one key per bag, with FeatureKeys::places; features have different numbers of keys,
  // and the output is one vector.
  bool placed = false;
  // For a sharded lookup: equal keys of a shard are asked for once. On a CPU they always are.
  bool dedup = true;
};

}  // namespace emblem
