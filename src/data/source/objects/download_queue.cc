#include "data/source/objects/download_queue.h"

#include "core/threads/start_threads.h"
#include "data/source/objects/object_file.h"
#include "emblem/error.h"

namespace emblem {

void DownloadQueue::add(std::weak_ptr<ObjectFile> file, int64_t part, Urgency urgency) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    if (urgency == Urgency::kNow)
      tasks_.push_front({std::move(file), part});
    else
      tasks_.push_back({std::move(file), part});
    if (threads_.empty())
      start_threads(
          threads_, thread_count_, cat(thread_count_, " download threads"),
          "use a smaller data_config.download_threads", [this] { work(); },
          [this] { stop_ = true; });
  }
  work_.notify_one();
}

void DownloadQueue::finish_later(std::weak_ptr<ObjectFile> file) {
  {
    const std::lock_guard lock(mutex_);
    unfinished_.push_back(std::move(file));
  }
  work_.notify_one();
}

int64_t DownloadQueue::pending() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(tasks_.size()) + active_;
}

void DownloadQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    tasks_.clear();
    unfinished_.clear();
  }
  work_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

// Called with the lock held. False: there is nothing to do.
bool DownloadQueue::take(Task& task) {
  if (!tasks_.empty()) {
    task = std::move(tasks_.front());
    tasks_.pop_front();
    return true;
  }
  // Half of the threads stay free for what is asked for next.
  if (active_ >= (thread_count_ + 1) / 2) return false;
  while (!unfinished_.empty()) {
    const std::shared_ptr<ObjectFile> file = unfinished_.front().lock();
    const int64_t part = file == nullptr ? -1 : file->claim_missing_part();
    if (part >= 0) {
      task = {file, part};
      return true;
    }
    unfinished_.pop_front();
  }
  return false;
}

void DownloadQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    Task task;
    work_.wait(lock, [&] { return stop_ || take(task); });
    if (stop_) return;
    ++active_;
    lock.unlock();
    if (const std::shared_ptr<ObjectFile> file = task.file.lock()) file->fetch(task.part);
    task.file.reset();
    lock.lock();
    --active_;
    // The rest of a file may be fetched by more threads now than this one.
    if (!unfinished_.empty()) work_.notify_one();
  }
}

}  // namespace emblem
