// ps/updates/kafka_updates.h - row updates from Kafka: topics hps_et.MODEL.TABLE, messages as HPS
// writes them (ps/updates/update_message.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ps/config/ps_config.h"

namespace emblem {

// Reads in a thread of its own and commits what was applied, never before: a message may come
// twice, none is lost. An update that cannot be applied for now (kUnavailable) is tried again,
// after a pause, until it can; a message that is not an update, or does not have the checksum in
// its header, is counted, logged and skipped. Thread-safe.
class KafkaUpdates {
 public:
  // Throws kUnavailable to be called again with the same rows.
  using Apply =
      std::function<void(const std::string& topic, std::span<const int64_t> keys,
                         std::span<const float> rows, int64_t dim, int64_t created_unix_ms)>;

  // A server that is alone in writing its rows reads all partitions. Servers with a database in
  // common share them: each reads some, and another takes over when it is gone.
  enum class Sharing { kAlone, kGroup };

  struct Settings {
    PsUpdateSource source;
    size_t key_bytes = 8;
    std::string group;
    Sharing sharing = Sharing::kAlone;
    // Where rows live in memory alone, what was applied is lost at the end: all messages that are
    // still there are read again then.
    bool from_the_beginning = false;
  };

  // Throws kInvalidArgument in a build without Kafka.
  KafkaUpdates(Settings settings, Apply apply);
  ~KafkaUpdates();
  KafkaUpdates(const KafkaUpdates&) = delete;

  void set_topics(std::vector<std::string> topics);

  struct Counts {
    uint64_t messages = 0;   // applied
    uint64_t refused = 0;    // skipped
    uint64_t unchecked = 0;  // messages without a checksum
    uint64_t retries = 0;
    uint64_t commits = 0;  // commits of offsets
  };
  Counts counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
