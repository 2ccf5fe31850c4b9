#include "embedding/transfer/host_transfer.h"
#include "core/memory/prefetch.h"

#include <sys/prctl.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr int kMinCpus = 4, kMaxThreads = 16;
constexpr int64_t kRowsPerChunk = 64;    // that a thread takes at a time
constexpr uint32_t kPrefetchedRows = 6;  // ahead of the row that is copied

char* address_of(uint64_t packed) { return reinterpret_cast<char*>(packed & ((1ull << 48) - 1)); }
size_t bytes_of(uint64_t packed) { return (packed >> 48) * 16; }

void prefetch_row(uint64_t packed) {
  prefetch(address_of(packed), static_cast<int64_t>(bytes_of(packed)));
}

// Whole cache lines are written past the caches: no CPU reads a row after it was written back.
#if defined(__SSE2__)
void write_row(char* to, const char* from, size_t bytes) {
  if ((reinterpret_cast<uintptr_t>(to) | bytes) % kCacheLine != 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  auto* target = reinterpret_cast<__m128i*>(to);
  const auto* source = reinterpret_cast<const __m128i*>(from);
  for (size_t i = 0; i < bytes / sizeof(__m128i); ++i)
    _mm_stream_si128(target + i, _mm_load_si128(source + i));
}
void finish_writing() { _mm_sfence(); }
#else
void write_row(char* to, const char* from, size_t bytes) { std::memcpy(to, from, bytes); }
void finish_writing() {}
#endif

void gather(const StagingMemory& staging, uint32_t begin, uint32_t end, uint64_t stride) {
  for (uint32_t i = begin; i < end; ++i) {
    if (i + kPrefetchedRows < end) prefetch_row(staging.in_rows[i + kPrefetchedRows]);
    const uint64_t from = staging.in_rows[i];
    if (from != 0) std::memcpy(staging.in + i * stride, address_of(from), bytes_of(from));
  }
}

void scatter(const StagingMemory& staging, uint32_t begin, uint32_t end, uint64_t stride) {
  for (uint32_t i = begin; i < end; ++i) {
    const uint64_t to = staging.out_rows[i];
    if (to != 0) write_row(address_of(to), staging.out + i * stride, bytes_of(to));
  }
  finish_writing();
}

// The next requests of one kind in a queue, served together: threads are woken once, and each
// request is reported when it is done, in order.
class TransferBatch {
 public:
  explicit TransferBatch(const StagingMemory& staging)
      : staging_(staging),
        first_(std::atomic_ref(staging.queue->done).load(std::memory_order_relaxed)) {
    while (requests_ < kMaxRequests && is_next(request(requests_))) {
      const TransferRequest& next = request(requests_);
      const int64_t chunks = (next.end - next.begin + kRowsPerChunk - 1) / kRowsPerChunk;
      pending_[requests_] = static_cast<uint32_t>(chunks);
      first_chunk_[++requests_] = this->chunks() + chunks;
    }
    report();
  }

  uint32_t requests() const { return requests_; }
  int64_t chunks() const { return first_chunk_[requests_]; }

  void copy(int64_t chunk) {
    const auto after =
        std::upper_bound(first_chunk_.begin(), first_chunk_.begin() + requests_, chunk);
    const auto number = static_cast<uint32_t>(after - first_chunk_.begin()) - 1;
    const TransferRequest& of = request(number);
    const auto begin =
        of.begin + static_cast<uint32_t>((chunk - first_chunk_[number]) * kRowsPerChunk);
    const uint32_t end = std::min(of.end, begin + static_cast<uint32_t>(kRowsPerChunk));
    (of.kind == TransferRequest::Kind::kGather ? gather : scatter)(staging_, begin, end, of.stride);
    if (pending_[number].fetch_sub(1, std::memory_order_acq_rel) == 1) report();
  }

 private:
  TransferRequest& request(uint32_t number) const {
    return staging_.queue->requests[(first_ + number) % kMaxRequests];
  }
  bool is_next(TransferRequest& request) const {
    const uint64_t number = std::atomic_ref(request.number).load(std::memory_order_acquire);
    return number == first_ + requests_ + 1 && request.kind == this->request(0).kind;
  }
  // Publishes the requests that are done.
  void report() {
    const std::lock_guard lock(report_mutex_);
    for (; reported_ < requests_ && pending_[reported_].load(std::memory_order_acquire) == 0;
         ++reported_) {
      if (uint64_t* scattered = request(reported_).scattered; scattered != nullptr)
        std::atomic_ref(*scattered).fetch_add(1, std::memory_order_release);
      std::atomic_ref(staging_.queue->done)
          .store(first_ + reported_ + 1, std::memory_order_release);
    }
  }

  const StagingMemory& staging_;
  const uint64_t first_;
  uint32_t requests_ = 0, reported_ = 0;
  std::array<int64_t, kMaxRequests + 1> first_chunk_{};
  std::array<std::atomic<uint32_t>, kMaxRequests> pending_{};
  std::mutex report_mutex_;
};

// The next request may follow the last one at once. The longer there was none, the longer the
// polling thread sleeps.
void back_off(Clock::duration quiet) {
  if (quiet < microseconds(200)) return;
  const auto longest = quiet < std::chrono::seconds(2) ? microseconds(50) : microseconds(200);
  std::this_thread::sleep_for(std::min<Clock::duration>(quiet / 16, longest));
}

struct ProcessTransfer {
  std::mutex mutex;
  std::weak_ptr<HostTransfer> host_transfer;
};
ProcessTransfer& process_transfer() {
  static ProcessTransfer of;
  return of;
}

}  // namespace

std::shared_ptr<HostTransfer> HostTransfer::of_process() {
  const int cpus = available_cpus();
  if (cpus < kMinCpus) return nullptr;
  ProcessTransfer& of = process_transfer();
  const std::lock_guard lock(of.mutex);
  std::shared_ptr<HostTransfer> host_transfer = of.host_transfer.lock();
  if (!host_transfer)
    of.host_transfer = host_transfer = std::make_shared<HostTransfer>(std::min(cpus, kMaxThreads));
  return host_transfer;
}

void finish_host_transfers() {
  ProcessTransfer& of = process_transfer();
  std::shared_ptr<HostTransfer> host_transfer;
  {
    const std::lock_guard lock(of.mutex);
    host_transfer = of.host_transfer.lock();
  }
  if (host_transfer) host_transfer->finish();
}

HostTransfer::HostTransfer(int threads)
    : pool_(threads, {"host transfer", "use fewer CPUs (taskset)"}),
      poller_(start_thread("host transfer", [this] { poll_queues(); })) {}

HostTransfer::~HostTransfer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  poller_.join();
}

void HostTransfer::poll_queues() {
  prctl(PR_SET_TIMERSLACK, 1000);  // ns: short sleeps must stay short
  auto last = Clock::now();
  for (;;) {
    while (callers_ != 0) std::this_thread::yield();
    bool served = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || !buffers_.empty(); });
      if (stop_) return;
      served = serve_any();
    }
    const auto now = Clock::now();
    if (served) last = now;
    back_off(now - last);
  }
}

bool HostTransfer::serve_any() {
  bool served = false;
  for (const StagingMemory& staging : buffers_) served |= serve(staging);
  return served;
}

bool HostTransfer::serve(const StagingMemory& staging) {
  TransferBatch batch(staging);
  if (batch.requests() == 0) return false;
  if (batch.chunks() == 0)  // wakes the threads of the pool
    pool_.run(
        pool_.threads(), [](void*, int64_t) {}, nullptr);
  else
    pool_.run(
        batch.chunks(),
        [](void* of, int64_t chunk) { static_cast<TransferBatch*>(of)->copy(chunk); }, &batch);
  served_ += batch.requests();
  return true;
}

void HostTransfer::add(const StagingMemory& staging) {
  ++callers_;
  {
    const std::lock_guard lock(mutex_);
    buffers_.push_back(staging);
  }
  --callers_;
  changed_.notify_all();
}

void HostTransfer::remove(const StagingMemory& staging) {
  ++callers_;
  {
    const std::lock_guard lock(mutex_);
    while (serve(staging)) {
    }
    std::erase_if(buffers_, [&](const StagingMemory& of) { return of.queue == staging.queue; });
  }
  --callers_;
}

void HostTransfer::finish() {
  ++callers_;
  {
    const std::lock_guard lock(mutex_);
    while (serve_any()) {
    }
  }
  --callers_;
}

}  // namespace emblem
