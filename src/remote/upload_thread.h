// remote/upload_thread.h - uploads beside the work of a process.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace emblem {

// Calls `upload` on a thread of its own after request(), one call at a time: requests during a call
// lead to one more. A call that throws is reported by `warn` and made again at the next request, or
// after `retry_seconds`.
class UploadThread {
 public:
  UploadThread(std::function<void()> upload, std::function<void(const std::string&)> warn,
               double retry_seconds = 30);
  ~UploadThread();  // as stop()
  UploadThread(const UploadThread&) = delete;
  UploadThread& operator=(const UploadThread&) = delete;

  // Returns at once.
  void request();
  // Waits for the call under way; there is none afterwards.
  void stop();

 private:
  void run();

  const std::function<void()> upload_;
  const std::function<void(const std::string&)> warn_;
  const double retry_seconds_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  bool requested_ = false, failed_ = false, ends_ = false;
  std::thread thread_;
};

}  // namespace emblem
