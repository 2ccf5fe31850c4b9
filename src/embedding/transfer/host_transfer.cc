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

void gather(const BerthMemory& berth, uint32_t begin, uint32_t end, uint64_t stride) {
  for (uint32_t i = begin; i < end; ++i) {
    if (i + kRowsAhead < end) ask_memory_for(berth.in_from[i + kRowsAhead]);
    const uint64_t from = berth.in_from[i];
    if (from != 0) std::memcpy(berth.in + i * stride, address_of(from), bytes_of(from));
  }
}

void scatter(const BerthMemory& berth, uint32_t begin, uint32_t end, uint64_t stride) {
  for (uint32_t i = begin; i < end; ++i) {
    const uint64_t to = berth.out_to[i];
    if (to != 0) write_row(address_of(to), berth.out + i * stride, bytes_of(to));
  }
  finish_writing();
}

// The requests of one kind that a berth has next, carried together: helpers are woken once, and
// the berth hears of each request when it is done, in order.
class Trip {
 public:
  explicit Trip(const BerthMemory& berth)
      : berth_(berth), first_(std::atomic_ref(berth.mail->done).load(std::memory_order_relaxed)) {
    while (requests_ < kMostRequests && is_next(request(requests_))) {
      const FerryRequest& next = request(requests_);
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
    const FerryRequest& of = request(number);
    const auto begin =
        of.begin + static_cast<uint32_t>((chunk - first_chunk_[number]) * kRowsATime);
    const uint32_t end = std::min(of.end, begin + static_cast<uint32_t>(kRowsATime));
    (of.kind == FerryRequest::Kind::kGather ? gather : scatter)(berth_, begin, end, of.stride);
    if (left_[number].fetch_sub(1, std::memory_order_acq_rel) == 1) report();
  }

 private:
  FerryRequest& request(uint32_t number) const {
    return berth_.mail->requests[(first_ + number) % kMostRequests];
  }
  bool is_next(FerryRequest& request) const {
    const uint64_t number = std::atomic_ref(request.number).load(std::memory_order_acquire);
    return number == first_ + requests_ + 1 && request.kind == this->request(0).kind;
  }
  // Tells the berth of the requests that are done.
  void report() {
    const std::lock_guard lock(reporting_);
    for (; reported_ < requests_ && left_[reported_].load(std::memory_order_acquire) == 0;
         ++reported_) {
      if (uint64_t* scattered = request(reported_).scattered; scattered != nullptr)
        std::atomic_ref(*scattered).fetch_add(1, std::memory_order_release);
      std::atomic_ref(berth_.mail->done).store(first_ + reported_ + 1, std::memory_order_release);
    }
  }

  const BerthMemory& berth_;
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
  std::weak_ptr<Ferry> ferry;
  FerryLimits limits;
};
OfProcess& of_this_process() {
  static OfProcess of;
  return of;
}

}  // namespace

std::shared_ptr<Ferry> Ferry::of_process() {
  const int cpus = available_cpus();
  if (cpus < kFewestCpus) return nullptr;
  OfProcess& of = of_this_process();
  const std::lock_guard lock(of.mutex);
  std::shared_ptr<Ferry> ferry = of.ferry.lock();
  if (!ferry) of.ferry = ferry = std::make_shared<Ferry>(std::min(cpus, kMostThreads));
  return ferry;
}

void finish_ferrying() {
  OfProcess& of = of_this_process();
  std::shared_ptr<Ferry> ferry;
  {
    const std::lock_guard lock(of.mutex);
    ferry = of.ferry.lock();
  }
  if (ferry) ferry->finish();
}

FerryLimits ferry_limits() {
  OfProcess& of = of_this_process();
  const std::lock_guard lock(of.mutex);
  return of.limits;
}

void set_ferry_limits(const FerryLimits& limits) {
  OfProcess& of = of_this_process();
  const std::lock_guard lock(of.mutex);
  of.limits = limits;
}

Ferry::Ferry(int threads) : pool_(threads), leader_([this] { lead(); }) {}

Ferry::~Ferry() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  leader_.join();
}

void Ferry::lead() {
  prctl(PR_SET_TIMERSLACK, 1000);  // ns: naps are not to be made longer
  auto last = Clock::now();
  for (;;) {
    while (visitors_ != 0) std::this_thread::yield();
    bool served = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || !berths_.empty(); });
      if (stop_) return;
      served = serve_any();
    }
    const auto now = Clock::now();
    if (served) last = now;
    rest(now - last);
  }
}

bool Ferry::serve_any() {
  bool served = false;
  for (const BerthMemory& berth : berths_) served |= serve(berth);
  return served;
}

bool Ferry::serve(const BerthMemory& berth) {
  Trip trip(berth);
  if (trip.requests() == 0) return false;
  if (trip.chunks() == 0)  // the helpers wake up, too
    pool_.run(
        pool_.threads(), [](void*, int64_t) {}, nullptr);
  else
    pool_.run(
        trip.chunks(), [](void* of, int64_t chunk) { static_cast<Trip*>(of)->carry(chunk); },
        &trip);
  served_ += trip.requests();
  return true;
}

void Ferry::add(const BerthMemory& berth) {
  ++visitors_;
  {
    const std::lock_guard lock(mutex_);
    berths_.push_back(berth);
  }
  --visitors_;
  changed_.notify_all();
}

void Ferry::remove(const BerthMemory& berth) {
  ++visitors_;
  {
    const std::lock_guard lock(mutex_);
    while (serve(berth)) {
    }
    std::erase_if(berths_, [&](const BerthMemory& of) { return of.mail == berth.mail; });
  }
  --visitors_;
}

void Ferry::finish() {
  ++visitors_;
  {
    const std::lock_guard lock(mutex_);
    while (serve_any()) {
    }
  }
  --visitors_;
}

}  // namespace emblem
