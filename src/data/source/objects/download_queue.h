// data/source/objects/download_queue.h - the threads that fetch parts of objects, in the order in
// which they were asked for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace emblem {

class ObjectFile;

enum class Urgency { kAhead, kNow };

// Thread-safe. A file without an owner is not fetched.
class DownloadQueue {
 public:
  explicit DownloadQueue(int threads) : thread_count_(threads) {}
  ~DownloadQueue() { stop(); }
  DownloadQueue(const DownloadQueue&) = delete;
  DownloadQueue& operator=(const DownloadQueue&) = delete;

  // kNow goes before everything else.
  void add(std::weak_ptr<ObjectFile> file, int64_t part, Urgency urgency);
  // The rest of this file is fetched when there is nothing else to do.
  void finish_later(std::weak_ptr<ObjectFile> file);
  // Parts that wait or are being fetched.
  int64_t pending() const;
  int threads() const { return thread_count_; }

  // Waits for what is being fetched; the rest is dropped.
  void stop();

 private:
  struct Task {
    std::weak_ptr<ObjectFile> file;
    int64_t part;
  };

  void work();
  bool take(Task& task);

  const int thread_count_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::deque<Task> tasks_;
  std::deque<std::weak_ptr<ObjectFile>> unfinished_;
  int64_t active_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace emblem
