#include "serve/engine/hps/hps_gpu.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/device/cuda_check.h"
#include "core/device/gpu.h"
#include "core/device/stream.h"
#include "core/memory/pinned.h"

namespace emblem::cuda {
namespace {

constexpr int64_t kMostColumns = 256;            // columns of all tables, where there are fewer
constexpr int64_t kMostRows = 16384;             // rows of a pass
constexpr int64_t kMostStagedBytes = 256 << 20;  // bytes of rows that one engine stages for a pass
constexpr int kThreads = 256;
constexpr unsigned kMostBlocks = 512;

// A table's part of a pass.
struct TablePart {
  int64_t first_column, keys, dim;
  int64_t begin;  // begin of its rows in the output, in floats
};

// A warp copies a row. Key j of a table is that of column j / rows in row j % rows.
__global__ void __launch_bounds__(kThreads)
    copy_rows_kernel(const void* const* addresses, int64_t columns, int64_t rows,
                     const TablePart* parts, float* out) {
  const TablePart part = parts[blockIdx.y];
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (kThreads / 32);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t j = blockIdx.x * (kThreads / 32) + threadIdx.x / 32; j < part.keys; j += warps) {
    const auto* from =
        static_cast<const float*>(addresses[(j % rows) * columns + part.first_column + j / rows]);
    float* to = out + part.begin + j * part.dim;
    for (int64_t d = lane; d < part.dim; d += 32) to[d] = from[d];
  }
}

class GpuLookup final : public HpsLookup {
 public:
  GpuLookup(DeviceTier& tier, std::vector<int64_t> dims, std::vector<int64_t> columns,
            int64_t max_rows)
      : dims_(std::move(dims)),
        columns_(std::move(columns)),
        all_columns_(std::accumulate(columns_.begin(), columns_.end(), int64_t{0})),
        max_rows_(max_rows),
        parts_(dims_.size()),
        counts_(dims_.size()) {
    context_.device = Device::kCuda;
    context_.stream = stream_.get();
    std::vector<int> tables;
    int64_t floats = 0;
    for (size_t t = 0; t < columns_.size(); ++t) {
      tables.insert(tables.end(), static_cast<size_t>(columns_[t]), static_cast<int>(t));
      floats += columns_[t] * max_rows * dims_[t];
    }
    rows_ = tier.make_rows(context_, std::move(tables), max_rows);
    missing_ = tier.make_missing();
    const int64_t input = input_words(max_rows);
    host_input_ = std::make_unique<PinnedMemory>(static_cast<size_t>(input) * sizeof(int64_t));
    input_ = Buffer<int64_t>(Device::kCuda, input);
    output_ = Buffer<float>(Device::kCuda, std::max<int64_t>(1, floats));
  }

  void copy_rows(std::span<const View<const int64_t>> keys, float* to) override {
    int64_t passes = 0;
    for (size_t t = 0; t < keys.size(); ++t) {
      const int64_t each = columns_[t] * max_rows_;
      passes = std::max(passes, (keys[t].size() + each - 1) / each);
    }
    for (int64_t pass = 0; pass < passes; ++pass) run(keys, pass, to);
  }

 private:
  // Rows found stay where they are until its end.
  struct ReadScope {
    const Context& context;
    RowCache& cache;
    uint64_t number;
    ReadScope(const Context& of, RowCache& read)
        : context(of), cache(read), number(read.begin_read()) {}
    ~ReadScope() {
      cudaStreamSynchronize(context.stream);  // also after an error
      cache.end_read(number);
    }
  };

  // [rows of the pass], [columns, rows] keys, the tables' parts.
  int64_t input_words(int64_t rows) const {
    return 1 + all_columns_ * rows +
           static_cast<int64_t>(parts_.size() * sizeof(TablePart) / sizeof(int64_t));
  }

  void run(std::span<const View<const int64_t>> keys, int64_t pass, float* to) {
    const int64_t rows = lay_out(keys, pass);
    const ReadScope scope(context_, rows_->cache());
    rows_->clear_report();
    copy_async(context_, input_.data(), host_input_->data(),
               static_cast<size_t>(input_words(rows)) * sizeof(int64_t));
    rows_->find(context_, {reinterpret_cast<const uint32_t*>(input_.data()), input_.data() + 1},
                rows);
    context_.synchronize();
    missing_->count_lookups(*rows_, counts_);
    if (rows_->report().distinct > 0) missing_->fetch(context_, *rows_);
    const auto most = static_cast<unsigned>(*std::max_element(counts_.begin(), counts_.end()));
    const dim3 blocks(std::min(kMostBlocks, (most + kThreads / 32 - 1) / (kThreads / 32)),
                      static_cast<unsigned>(parts_.size()));
    copy_rows_kernel<<<blocks, kThreads, 0, context_.stream>>>(
        rows_->addresses(), all_columns_, rows,
        reinterpret_cast<const TablePart*>(input_.data() + 1 + all_columns_ * rows),
        output_.data());
    cuda_check(cudaGetLastError(), "launching copy_rows_kernel");
    take_output(keys, pass, to);
    context_.synchronize();
  }

  // Fills host_input_, parts_ and counts_. Returns the rows of the pass.
  int64_t lay_out(std::span<const View<const int64_t>> keys, int64_t pass) {
    int64_t rows = 1, floats = 0, column = 0;
    for (size_t t = 0; t < keys.size(); ++t) {
      const int64_t each = columns_[t] * max_rows_;
      const int64_t count = std::clamp<int64_t>(keys[t].size() - pass * each, 0, each);
      rows = std::max(rows, (count + columns_[t] - 1) / columns_[t]);
      parts_[t] = {column, count, dims_[t], floats};
      counts_[t] = static_cast<uint64_t>(count);
      floats += count * dims_[t];
      column += columns_[t];
    }
    auto* input = reinterpret_cast<int64_t*>(host_input_->data());
    input[0] = rows;
    std::fill(input + 1, input + 1 + all_columns_ * rows, kNoKey);
    for (size_t t = 0; t < keys.size(); ++t) {
      const int64_t* from = keys[t].data + pass * columns_[t] * max_rows_;
      std::copy(from, from + parts_[t].keys, input + 1 + parts_[t].first_column * rows);
    }
    std::memcpy(input + 1 + all_columns_ * rows, parts_.data(), parts_.size() * sizeof(TablePart));
    return rows;
  }

  void take_output(std::span<const View<const int64_t>> keys, int64_t pass, float* to) {
    for (size_t t = 0; t < parts_.size(); ++t) {
      const TablePart& part = parts_[t];
      if (part.keys > 0)
        emblem::detail::copy(context_, to + pass * columns_[t] * max_rows_ * part.dim,
                             output_.data() + part.begin,
                             static_cast<size_t>(part.keys * part.dim) * sizeof(float));
      to += keys[t].size() * part.dim;
    }
  }

  const std::vector<int64_t> dims_, columns_;
  const int64_t all_columns_, max_rows_;
  Stream stream_;
  Context context_;
  std::unique_ptr<CachedRows> rows_;
  std::unique_ptr<MissingRowSource> missing_;
  std::unique_ptr<PinnedMemory> host_input_;
  Buffer<int64_t> input_;
  Buffer<float> output_;
  std::vector<TablePart> parts_;  // part of each table in the pass under way
  std::vector<uint64_t> counts_;  // keys of each
};

}  // namespace

HpsGpuTables::HpsGpuTables(HpsGpuSettings settings) {
  require_usable_gpu();
  const auto tables = static_cast<int64_t>(settings.tier.tables.size());
  const int64_t most = std::max<int64_t>(1, kMostColumns / std::max<int64_t>(1, tables));
  int64_t columns = 0, dim = 1;
  for (size_t t = 0; t < settings.tier.tables.size(); ++t) {
    dims_.push_back(settings.tier.tables[t]->dim());
    columns_.push_back(std::clamp<int64_t>(settings.keys_per_sample[t], 1, most));
    columns += columns_.back();
    dim = std::max(dim, dims_.back());
  }
  const int64_t row_bytes = std::max<int64_t>(1, columns) * dim * 4;
  max_rows_ = std::clamp<int64_t>(settings.max_samples, 1, kMostRows);
  max_rows_ = std::clamp<int64_t>(kMostStagedBytes / row_bytes, 1, max_rows_);
  tier_ = std::make_unique<DeviceTier>(std::move(settings.tier));
  if (settings.fill) tier_->fill();
}

std::unique_ptr<HpsLookup> HpsGpuTables::make_lookup() const {
  return std::make_unique<GpuLookup>(*tier_, dims_, columns_, max_rows_);
}

}  // namespace emblem::cuda
