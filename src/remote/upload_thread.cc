#include "remote/upload_thread.h"

#include <chrono>
#include <exception>

namespace emblem {

UploadThread::UploadThread(std::function<void()> upload,
                           std::function<void(const std::string&)> warn, double retry_seconds)
    : upload_(std::move(upload)),
      warn_(std::move(warn)),
      retry_seconds_(retry_seconds),
      thread_([this] { run(); }) {}

UploadThread::~UploadThread() { stop(); }

void UploadThread::request() {
  {
    const std::lock_guard lock(mutex_);
    requested_ = true;
  }
  wake_.notify_all();
}

void UploadThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void UploadThread::run() {
  std::unique_lock lock(mutex_);
  const auto is_woken = [&] { return requested_ || ends_; };
  while (true) {
    if (failed_)
      wake_.wait_for(lock, std::chrono::duration<double>(retry_seconds_), is_woken);
    else
      wake_.wait(lock, is_woken);
    if (ends_) return;
    requested_ = failed_ = false;
    lock.unlock();
    std::string problem;
    try {
      upload_();
    } catch (const std::exception& error) {
      problem = error.what();
      warn_(problem);
    }
    lock.lock();
    failed_ = !problem.empty();
  }
}

}  // namespace emblem
