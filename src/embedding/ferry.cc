#include "embedding/ferry.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr int kFewestCpus = 4, kMostThreads = 16;
constexpr int64_t kRowsATime = 128;  // that a thread takes
constexpr uint32_t kRowsAhead = 6;   // asked of memory before they are copied

char* address_of(uint64_t listed) { return reinterpret_cast<char*>(listed & ((1ull << 48) - 1)); }
size_t bytes_of(uint64_t listed) { return (listed >> 48) * 16; }

template <bool kToWrite>
void ask_memory_for(uint64_t listed) {
  const char* row = address_of(listed);
  for (size_t at = 0; at < bytes_of(listed); at += 64) __builtin_prefetch(row + at, kToWrite);
}

void gather(const BerthMemory& berth, uint32_t begin, uint32_t end, uint64_t stride) {
  for (uint32_t i = begin; i < end; ++i) {
    if (i + kRowsAhead < end) ask_memory_for<false>(berth.in_from[i + kRowsAhead]);
    const uint64_t from = berth.in_from[i];
    if (from != 0) std::memcpy(berth.in + i * stride, address_of(from), bytes_of(from));
  }
}

void scatter(const BerthMemory& berth, uint32_t begin, uint32_t end, uint64_t stride) {
  for (uint32_t i = begin; i < end; ++i) {
    if (i + kRowsAhead < end) ask_memory_for<true>(berth.out_to[i + kRowsAhead]);
    const uint64_t to = berth.out_to[i];
    if (to != 0) std::memcpy(address_of(to), berth.out + i * stride, bytes_of(to));
  }
}

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

// One request of each berth.
bool Ferry::serve_any() {
  bool served = false;
  for (const BerthMemory& berth : berths_) served |= serve(berth);
  return served;
}

bool Ferry::serve(const BerthMemory& berth) {
  const std::atomic_ref done(berth.mail->done);
  const uint64_t before = done.load(std::memory_order_relaxed);
  FerryRequest& request = berth.mail->requests[before % kMostRequests];
  if (std::atomic_ref(request.number).load(std::memory_order_acquire) != before + 1) return false;
  if (request.kind == FerryRequest::Kind::kCall)
    pool_.run(
        pool_.threads(), [](void*, int64_t) {}, nullptr);
  else
    carry(berth, request);
  if (request.scattered != nullptr)
    std::atomic_ref(*request.scattered).fetch_add(1, std::memory_order_release);
  ++served_;
  done.store(before + 1, std::memory_order_release);
  return true;
}

void Ferry::carry(const BerthMemory& berth, const FerryRequest& request) {
  const Context context{.threads = &pool_};
  const auto carry_rows = request.kind == FerryRequest::Kind::kGather ? gather : scatter;
  parallel_for(context, request.end - request.begin, kRowsATime, [&](int64_t begin, int64_t end) {
    carry_rows(berth, request.begin + static_cast<uint32_t>(begin),
               request.begin + static_cast<uint32_t>(end), request.stride);
  });
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
