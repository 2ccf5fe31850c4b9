// train/report/event_file.h - curves for TensorBoard: scalars in its event file format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace emblem {

// Appends to one new file `events.out.tfevents.*` in a folder, which is made when missing.
// Thread-compatible.
class EventFile {
 public:
  explicit EventFile(const std::string& folder);
  ~EventFile();  // flushes as far as that is possible
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // `wall_time` is in seconds since 1970; the first form takes the time from the clock.
  void add_scalar(std::string_view tag, int64_t step, float value);
  void add_scalar(std::string_view tag, int64_t step, float value, double wall_time);

  // Makes TensorBoard discard what earlier files of the folder hold from `step` on: a resumed run
  // continues there.
  void restart_at(int64_t step);

  // Hands buffered events to the system; throws Error when they cannot be written. Happens by
  // itself every few hundred events.
  void flush();

  const std::string& path() const { return path_; }

 private:
  void add_event(std::string_view event);

  std::string path_;
  int descriptor_ = -1;
  std::string buffer_;
};

namespace detail {

// CRC-32C (Castagnoli), and the masked form that record files store.
uint32_t crc32c(std::string_view bytes);
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace detail
}  // namespace emblem
