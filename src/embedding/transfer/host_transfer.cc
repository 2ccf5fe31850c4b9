#include "embedding/transfer/host_transfer.h"

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

constexpr int kFewestCpus = 4, kMostThreads = 16;
constexpr int64_t kRowsATime = 64;  // that a thread takes
constexpr uint32_t kRowsAhead = 6;  // asked of memory before they are copied

char* address_of(uint64_t listed) { return reinterpret_cast<char*>(listed & ((1ull << 48) - 1)); }
size_t bytes_of(uint64_t listed) { return (listed >> 48) * 16; }

constexpr size_t kLine = 64;  // bytes

void ask_memory_for(uint64_t listed) {
  const char* row = address_of(listed);
  for (size_t at = 0; at < bytes_of(listed); at += kLine) __builtin_prefetch(row + at);
}

// Whole lines are written without being read before, or staying in a cache: nobody here reads a row
// that has left.
#if defined(__SSE2__)
void write_row(char* to, const char* from, size_t bytes) {
  if ((reinterpret_cast<uintptr_t>(to) | bytes) % kLine != 0) {
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
    if (i + kRowsAhead < end) ask_memory_for(staging.in_from[i + kRowsAhead]);
    const uint64_t from = staging.in_from[i];
    if (from != 0) std::memcpy(staging.in + i * stride, address_of(from), bytes_of(from));
  }
}

void scatter(const StagingMemory& staging, uint32_t begin, uint32_t end, uint64_t stride) {
  for (uint32_t i = begin; i < end; ++i) {
    const uint64_t to = staging.out_to[i];
    if (to != 0) write_row(address_of(to), staging.out + i * stride, bytes_of(to));
  }
  finish_writing();
}

// The requests of one kind that a staging has next, carried together: helpers are woken once, and
// the staging hears of each request when it is done, in order.
class TransferBatch {
 public:
  explicit TransferBatch(const StagingMemory& staging)
      : staging_(staging),
        first_(std::atomic_ref(staging.queue->done).load(std::memory_order_relaxed)) {
    while (requests_ < kMostRequests && is_next(request(requests_))) {
      const TransferRequest& next = request(requests_);
      const int64_t chunks = (next.end - next.begin + kRowsATime - 1) / kRowsATime;
      left_[requests_] = static_cast<uint32_t>(chunks);
      first_chunk_[++requests_] = this->chunks() + chunks;
    }
    report();
  }

  uint32_t requests() const { return requests_; }
  int64_t chunks() const { return first_chunk_[requests_]; }

  void carry(int64_t chunk) {
    const auto after =
        std::upper_bound(first_chunk_.begin(), first_chunk_.begin() + requests_, chunk);
    const auto number = static_cast<uint32_t>(after - first_chunk_.begin()) - 1;
    const TransferRequest& of = request(number);
    const auto begin =
        of.begin + static_cast<uint32_t>((chunk - first_chunk_[number]) * kRowsATime);
    const uint32_t end = std::min(of.end, begin + static_cast<uint32_t>(kRowsATime));
    (of.kind == TransferRequest::Kind::kGather ? gather : scatter)(staging_, begin, end, of.stride);
    if (left_[number].fetch_sub(1, std::memory_order_acq_rel) == 1) report();
  }

 private:
  TransferRequest& request(uint32_t number) const {
    return staging_.queue->requests[(first_ + number) % kMostRequests];
  }
  bool is_next(TransferRequest& request) const {
    const uint64_t number = std::atomic_ref(request.number).load(std::memory_order_acquire);
    return number == first_ + requests_ + 1 && request.kind == this->request(0).kind;
  }
  // Tells the staging of the requests that are done.
  void report() {
    const std::lock_guard lock(reporting_);
    for (; reported_ < requests_ && left_[reported_].load(std::memory_order_acquire) == 0;
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
  std::array<int64_t, kMostRequests + 1> first_chunk_{};
  std::array<std::atomic<uint32_t>, kMostRequests> left_{};
  std::mutex reporting_;
};

// After a request the next may come at once; the longer none came, the longer the next may wait.
void rest(Clock::duration quiet) {
  if (quiet < microseconds(200)) return;
  const auto longest = quiet < std::chrono::seconds(2) ? microseconds(50) : microseconds(200);
  std::this_thread::sleep_for(std::min<Clock::duration>(quiet / 16, longest));
}

struct OfProcess {
  std::mutex mutex;
  std::weak_ptr<HostTransfer> host_transfer;
};
OfProcess& of_this_process() {
  static OfProcess of;
  return of;
}

}  // namespace

std::shared_ptr<HostTransfer> HostTransfer::of_process() {
  const int cpus = available_cpus();
  if (cpus < kFewestCpus) return nullptr;
  OfProcess& of = of_this_process();
  const std::lock_guard lock(of.mutex);
  std::shared_ptr<HostTransfer> host_transfer = of.host_transfer.lock();
  if (!host_transfer)
    of.host_transfer = host_transfer = std::make_shared<HostTransfer>(std::min(cpus, kMostThreads));
  return host_transfer;
}

void finish_host_transfers() {
  OfProcess& of = of_this_process();
  std::shared_ptr<HostTransfer> host_transfer;
  {
    const std::lock_guard lock(of.mutex);
    host_transfer = of.host_transfer.lock();
  }
  if (host_transfer) host_transfer->finish();
}

HostTransfer::HostTransfer(int threads)
    : pool_(threads, {"host transfer", "use fewer CPUs (taskset)"}),
      leader_(start_thread("host transfer", [this] { lead(); })) {}

HostTransfer::~HostTransfer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  leader_.join();
}

void HostTransfer::lead() {
  prctl(PR_SET_TIMERSLACK, 1000);  // ns: naps are not to be made longer
  auto last = Clock::now();
  for (;;) {
    while (visitors_ != 0) std::this_thread::yield();
    bool served = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || !buffers_.empty(); });
      if (stop_) return;
      served = serve_any();
    }
    const auto now = Clock::now();
    if (served) last = now;
    rest(now - last);
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
  if (batch.chunks() == 0)  // the helpers wake up, too
    pool_.run(
        pool_.threads(), [](void*, int64_t) {}, nullptr);
  else
    pool_.run(
        batch.chunks(),
        [](void* of, int64_t chunk) { static_cast<TransferBatch*>(of)->carry(chunk); }, &batch);
  served_ += batch.requests();
  return true;
}

void HostTransfer::add(const StagingMemory& staging) {
  ++visitors_;
  {
    const std::lock_guard lock(mutex_);
    buffers_.push_back(staging);
  }
  --visitors_;
  changed_.notify_all();
}

void HostTransfer::remove(const StagingMemory& staging) {
  ++visitors_;
  {
    const std::lock_guard lock(mutex_);
    while (serve(staging)) {
    }
    std::erase_if(buffers_, [&](const StagingMemory& of) { return of.queue == staging.queue; });
  }
  --visitors_;
}

void HostTransfer::finish() {
  ++visitors_;
  {
    const std::lock_guard lock(mutex_);
    while (serve_any()) {
    }
  }
  --visitors_;
}

}  // namespace emblem
