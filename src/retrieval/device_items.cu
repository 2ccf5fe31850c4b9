#include "retrieval/device_items.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/device/cuda_check.h"
#include "core/files/shared_memory.h"
#include "core/memory/buffer.h"
#include "core/threads/thread_pool.h"
#include "retrieval/device_scan.cuh"

namespace emblem::cuda {
namespace {

using Results = std::vector<std::vector<ScoredItem>>;

constexpr int64_t kLeastCapacity = 16384, kCapacityOfK = 16;  // candidates of a query
constexpr int64_t kWorkspaceBytes = int64_t{1} << 30, kMostUsers = 1024;
constexpr int kSelectThreads = 512;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Packets of 16 bytes of a rounded query in shared memory: those of eight queries, which are read
// at once, are in different banks.
int packets_of(int64_t stride) {
  const int64_t packets = stride / 8;
  return static_cast<int>(packets % 8 == 0 ? packets + 4 : packets);
}

// Memory that grows.
template <class T>
class Grown {
 public:
  T* take(const Context& context, int64_t count) {
    if (buffer_.size() < count) buffer_ = Buffer<T>(context.device, count);
    return buffer_.data();
  }

 private:
  Buffer<T> buffer_;
};

template <class T>
void upload(const Context& context, const std::vector<T>& from, T* to) {
  detail::copy(context, to, from.data(), from.size() * sizeof(T));
}

struct HostQueries {
  std::vector<uint16_t> rounded;
  std::vector<QueryBound> bounds;
  std::vector<float> scales;
};

// fp16 ends at 65504: queries are divided by a power of two, so that the largest element is below
// 1.
HostQueries round_queries(const Context& context, View<const float> queries, DType type,
                          int packets) {
  HostQueries to;
  to.rounded.resize(static_cast<size_t>(queries.rows * packets * 8));
  to.bounds.resize(static_cast<size_t>(queries.rows));
  to.scales.resize(static_cast<size_t>(queries.rows));
  parallel_for(context, queries.rows, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> rounded(static_cast<size_t>(queries.cols));
    for (int64_t q = begin; q < end; ++q) {
      const std::span query(queries.row(q), static_cast<size_t>(queries.cols));
      float largest = 0.0f;
      for (const float value : query) largest = std::max(largest, std::abs(value));
      int exponent = 0;
      if (type == DType::kF16) std::frexp(largest, &exponent);
      exponent = std::max(exponent, -100);
      const float up = std::ldexp(1.0f, exponent), down = std::ldexp(1.0f, -exponent);
      uint16_t* const bits = to.rounded.data() + q * packets * 8;
      for (size_t k = 0; k < query.size(); ++k) {
        const float scaled = query[k] * down;
        bits[k] = type == DType::kF16 ? F16::from(scaled).bits : Bf16::from(scaled).bits;
        rounded[k] =
            up * (type == DType::kF16 ? F16{bits[k]}.to_float() : Bf16{bits[k]}.to_float());
      }
      to.bounds[q] = bound_of(query, rounded);
      to.bounds[q].constant += std::ldexp(static_cast<float>(queries.cols), exponent - 125);
      to.scales[q] = up;
    }
  });
  return to;
}

// Calls use(T{}) for the type of rows.
template <class Use>
void with_type(DType type, Use&& use) {
  switch (type) {
    case DType::kF32:
      return use(float{});
    case DType::kF16:
      return use(F16{});
    case DType::kBf16:
      return use(Bf16{});
    case DType::kInt8:
      return use(int8_t{});
  }
}

template <class Kernel>
void launch_scan(const Context& context, Kernel* kernel, const ScanTask& task) {
  const int padded =
      static_cast<int>(round_up(std::min(task.group, task.queries.users), kUsersAtATime));
  const size_t bytes = static_cast<size_t>(padded) * (task.queries.packets * 16 + sizeof(float));
  allow_shared_memory(kernel);
  int device = 0, multiprocessors = 1, resident = 1;
  cuda_check(cudaGetDevice(&device), "asking for the GPU");
  cuda_check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
             "asking for the number of multiprocessors");
  cuda_check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kScanThreads, bytes),
             "asking for the blocks of a search");
  const int groups = (task.queries.users + task.group - 1) / task.group;
  const int64_t tiles = (task.last_tile - task.first_tile + task.tile_step - 1) / task.tile_step;
  const int64_t blocks = std::min<int64_t>(
      std::max(1, std::max(1, resident) * multiprocessors / groups), std::max<int64_t>(1, tiles));
  kernel<<<static_cast<unsigned>(blocks * groups), kScanThreads, bytes, context.stream>>>(task);
  cuda_check(cudaGetLastError(), "searching items");
}

void launch_scan(const Context& context, DType type, const ScanTask& task) {
  with_type(type, [&](auto element) {
    using T = decltype(element);
    if (task.rows.stride == 128) {
      launch_scan(context, scan_items<T, 128 / kElementsAtATime>, task);
    } else {
      launch_scan(context, scan_items<T, 0>, task);
    }
  });
}

void launch_finish(const Context& context, DType type, const ScanTask& task) {
  with_type(type, [&](auto element) {
    finish_best<decltype(element)>
        <<<static_cast<unsigned>(task.queries.users), kSelectThreads, 0, context.stream>>>(task);
  });
  cuda_check(cudaGetLastError(), "selecting the best items");
}

// Rows of the samples that thresholds come from, before all are scanned: each sample has as many
// candidates as the buffers hold with a margin.
std::vector<int64_t> sample_rows(int64_t count, int64_t k, int64_t capacity) {
  std::vector<int64_t> rows;
  if (count <= capacity) return rows;
  const double first = static_cast<double>(std::min(capacity, std::max<int64_t>(4096, 4 * k))),
               ratio = static_cast<double>(count) / first,
               most = static_cast<double>(capacity) / (3.0 * static_cast<double>(k));
  const double steps = std::ceil(std::log(ratio) / std::log(most));
  for (int step = 0; step < static_cast<int>(steps); ++step)
    rows.push_back(static_cast<int64_t>(first * std::pow(ratio, step / steps)));
  return rows;
}

}  // namespace

struct DeviceItems::State {
  DType type;
  int64_t count, dim, stride;
  Buffer<std::byte> rows;
  Buffer<float> scales;
  Buffer<int64_t> ids;
  Buffer<uint64_t> attributes;
  Buffer<ScoreBound> bounds;

  // Memory of a search, which one at a time uses.
  std::mutex mutex;
  Grown<uint16_t> rounded;
  Grown<float> exact, query_scales, thresholds, kept_scores, scores;
  Grown<QueryBound> query_bounds;
  Grown<int> counts, found, overflowed;
  Grown<int32_t> kept_rows;
  Grown<DeviceCandidate> candidates;
  Grown<int64_t> result_ids, excluded, excluded_begin;
  Grown<uint64_t> removed;
  // What is copied to the GPU while a search goes on.
  HostQueries host_queries;
  std::vector<float> host_thresholds;
  std::vector<int64_t> host_excluded, host_excluded_begin;

  ScanTask task(const Context& context, View<const float> queries, int64_t k);
  void set_filter(const Context& context, const ItemFilter& filter, int64_t first, int64_t users,
                  const uint64_t* removed_rows, ScanTask& task);
  void search(const Context& context, const ScanTask& task);
  void repeat(const Context& context, ScanTask task, const std::vector<int>& overflowed);
  std::vector<int> read_results(const Context& context, const ScanTask& task,
                                std::span<std::vector<ScoredItem>> to);
  void start(const Context& context, const ScanTask& task, const std::vector<int>& searched);
};

DeviceItems::DeviceItems(const Context& context, const ItemTable& items,
                         std::span<const ScoreBound> bounds)
    : state_(std::make_unique<State>()) {
  State& to = *state_;
  EMBLEM_REQUIRE(items.rows.dim() <= kMostDim, "vectors of ", items.rows.dim(),
                 " elements are too long for searches on a GPU, which has at most ", kMostDim);
  to.type = items.rows.type();
  to.count = items.rows.count();
  to.dim = items.rows.dim();
  to.stride = round_up(to.dim, kElementsAtATime);
  if (to.count == 0) return;
  const auto row = static_cast<size_t>(items.rows.row_bytes()),
             wide = static_cast<size_t>(to.stride * size_of(to.type));
  to.rows = Buffer<std::byte>::zeros(context, static_cast<int64_t>(wide) * to.count);
  cuda_check(
      cudaMemcpy2DAsync(to.rows.data(), wide, items.rows.bytes().data(), row, row,
                        static_cast<size_t>(to.count), cudaMemcpyHostToDevice, context.stream),
      "copying items to the GPU");
  to.scales =
      Buffer<float>::from(context, {items.rows.scales().begin(), items.rows.scales().end()});
  to.ids = Buffer<int64_t>::from(context, items.ids);
  to.attributes = Buffer<uint64_t>::from(context, items.attributes);
  to.bounds = Buffer<ScoreBound>::from(context, {bounds.begin(), bounds.end()});
  context.synchronize();  // searches have streams of their own
}

DeviceItems::~DeviceItems() = default;

int64_t DeviceItems::memory_bytes() const {
  return state_->rows.size() + state_->scales.size() * 4 +
         state_->count * static_cast<int64_t>(sizeof(int64_t) + sizeof(uint64_t));
}

ScanTask DeviceItems::State::task(const Context& context, View<const float> queries, int64_t k) {
  const int64_t users = queries.rows, capacity = std::max(kLeastCapacity, kCapacityOfK * k);
  const int packets = packets_of(stride);
  host_queries =
      round_queries(context, queries, type == DType::kF16 ? DType::kF16 : DType::kBf16, packets);
  ScanTask task{};
  task.rows = {rows.data(),   type == DType::kInt8 ? scales.data() : nullptr,
               ids.data(),    attributes.data(),
               bounds.data(), count,
               dim,           stride};
  uint16_t* const to_rounded = rounded.take(context, users * packets * 8);
  float* const to_exact = exact.take(context, users * dim);
  QueryBound* const to_bounds = query_bounds.take(context, users);
  float* const to_scales = query_scales.take(context, users);
  upload(context, host_queries.rounded, to_rounded);
  upload(context, host_queries.bounds, to_bounds);
  upload(context, host_queries.scales, to_scales);
  detail::copy(context, to_exact, queries.data, static_cast<size_t>(users * dim) * sizeof(float));
  task.queries = {reinterpret_cast<const uint4*>(to_rounded),
                  to_exact,
                  to_bounds,
                  to_scales,
                  static_cast<int>(users),
                  packets};
  task.best = {.thresholds = thresholds.take(context, users),
               .counts = counts.take(context, users),
               .candidates = candidates.take(context, users * capacity),
               .kept_scores = kept_scores.take(context, users * capacity),
               .kept_rows = kept_rows.take(context, users * capacity),
               .capacity = static_cast<int>(capacity),
               .k = static_cast<int>(k),
               .scores = scores.take(context, users * k),
               .ids = result_ids.take(context, users * k),
               .found = found.take(context, users),
               .overflowed = overflowed.take(context, users)};
  // Equal groups of users whose queries fit into shared memory.
  const size_t user_bytes = static_cast<size_t>(packets) * 16 + sizeof(float);
  const auto most =
      std::max<int64_t>(kUsersAtATime, static_cast<int64_t>(kLeastSharedMemory / user_bytes) /
                                           kUsersAtATime * kUsersAtATime);
  const int64_t groups = (users + most - 1) / most;
  task.group = static_cast<int>(round_up((users + groups - 1) / groups, kUsersAtATime));
  return task;
}

void DeviceItems::State::set_filter(const Context& context, const ItemFilter& filter, int64_t first,
                                    int64_t users, const uint64_t* removed_rows, ScanTask& task) {
  task.filter.attributes = filter.attributes;
  if (removed_rows != nullptr) {
    const int64_t words = (count + 63) / 64;
    uint64_t* const to = removed.take(context, words);
    detail::copy(context, to, removed_rows, static_cast<size_t>(words) * sizeof(uint64_t));
    task.filter.removed = to;
  }
  if (filter.exclude.empty()) return;
  std::vector<int64_t>&all = host_excluded, &begin = host_excluded_begin;
  all.clear();
  begin = {0};
  for (const auto& ids_of_user : filter.exclude.subspan(first, users)) {
    all.insert(all.end(), ids_of_user.begin(), ids_of_user.end());
    begin.push_back(static_cast<int64_t>(all.size()));
  }
  int64_t* const to_all = excluded.take(context, std::max<int64_t>(1, begin.back()));
  int64_t* const to_begin = excluded_begin.take(context, users + 1);
  upload(context, all, to_all);
  upload(context, begin, to_begin);
  task.filter.excluded = to_all;
  task.filter.excluded_begin = to_begin;
}

// Without candidates, and thresholds for the users that are searched for.
void DeviceItems::State::start(const Context& context, const ScanTask& task,
                               const std::vector<int>& searched) {
  host_thresholds.clear();
  for (const int flag : searched)
    host_thresholds.push_back((flag == 0 ? 1.0f : -1.0f) * std::numeric_limits<float>::infinity());
  upload(context, host_thresholds, task.best.thresholds);
  detail::zero(context, task.best.counts, searched.size() * sizeof(int));
}

void DeviceItems::State::search(const Context& context, const ScanTask& task) {
  const int users = task.queries.users;
  start(context, task, std::vector<int>(static_cast<size_t>(users), 1));
  const int64_t tiles = (count + kScanRows - 1) / kScanRows;
  for (const int64_t sampled : sample_rows(count, task.best.k, task.best.capacity)) {
    ScanTask sample = task;
    sample.last_tile = tiles;
    sample.tile_step = std::max<int64_t>(1, tiles * kScanRows / sampled);
    launch_scan(context, type, sample);
    raise_thresholds<<<static_cast<unsigned>(users), kSelectThreads, 0, context.stream>>>(
        task.best);
    cuda_check(cudaGetLastError(), "raising thresholds");
  }
  ScanTask all = task;
  all.last_tile = tiles;
  all.tile_step = 1;
  launch_scan(context, type, all);
  launch_finish(context, type, all);
}

// Searches again for the users whose candidates did not fit, with no more rows at a time than fit
// beside the best so far.
void DeviceItems::State::repeat(const Context& context, ScanTask task,
                                const std::vector<int>& overflowed_users) {
  start(context, task, overflowed_users);
  const int64_t tiles = (count + kScanRows - 1) / kScanRows,
                step = (task.best.capacity - task.best.k) / kScanRows;
  task.tile_step = 1;
  for (task.first_tile = 0; task.first_tile < tiles; task.first_tile = task.last_tile) {
    task.last_tile = std::min(tiles, task.first_tile + step);
    launch_scan(context, type, task);
    launch_finish(context, type, task);
  }
}

// Waits for the results. Returns which users' candidates did not fit.
std::vector<int> DeviceItems::State::read_results(const Context& context, const ScanTask& task,
                                                  std::span<std::vector<ScoredItem>> to) {
  const size_t users = to.size(), k = static_cast<size_t>(task.best.k);
  std::vector<float> best_scores(users * k);
  std::vector<int64_t> best_ids(users * k);
  std::vector<int> lengths(users), flags(users);
  detail::copy(context, best_scores.data(), task.best.scores, best_scores.size() * sizeof(float));
  detail::copy(context, best_ids.data(), task.best.ids, best_ids.size() * sizeof(int64_t));
  detail::copy(context, lengths.data(), task.best.found, lengths.size() * sizeof(int));
  detail::copy(context, flags.data(), task.best.overflowed, flags.size() * sizeof(int));
  context.synchronize();
  for (size_t user = 0; user < users; ++user) {
    to[user].clear();
    for (size_t i = 0; i < static_cast<size_t>(lengths[user]); ++i)
      to[user].push_back({best_scores[user * k + i], best_ids[user * k + i]});
  }
  return flags;
}

Results DeviceItems::search(const Context& context, View<const float> queries, int64_t k,
                            const ItemFilter& filter, const uint64_t* removed) const {
  Results results(static_cast<size_t>(queries.rows));
  if (state_->count == 0) return results;
  k = std::min(k, state_->count);
  EMBLEM_REQUIRE(k <= kMostFound, "a search on a GPU finds at most ", kMostFound, " items, not ",
                 k);
  const std::lock_guard lock(state_->mutex);
  const int64_t bytes = std::max(kLeastCapacity, kCapacityOfK * k) *
                        static_cast<int64_t>(sizeof(DeviceCandidate) + 8),
                group = std::clamp<int64_t>(kWorkspaceBytes / bytes, 1, kMostUsers);
  for (int64_t first = 0; first < queries.rows; first += group) {
    const int64_t users = std::min(group, queries.rows - first);
    ScanTask task = state_->task(context, {queries.row(first), users, queries.cols}, k);
    state_->set_filter(context, filter, first, users, removed, task);
    state_->search(context, task);
    const std::span<std::vector<ScoredItem>> to = std::span(results).subspan(first, users);
    const std::vector<int> overflowed = state_->read_results(context, task, to);
    if (std::ranges::count(overflowed, 0) == users) continue;
    state_->repeat(context, task, overflowed);
    state_->read_results(context, task, to);
  }
  return results;
}

}  // namespace emblem::cuda
