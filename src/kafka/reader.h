// kafka/reader.h - reads all partitions of a topic in this process, from given offsets on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kafka/address.h"

namespace emblem {

struct KafkaOffset {
  int32_t partition = 0;
  int64_t offset = 0;  // of the next message

  bool operator==(const KafkaOffset&) const = default;
};

struct KafkaRecord {
  int32_t partition = 0;
  int64_t offset = 0;
  int64_t unix_ms = 0;  // when it was created; 0: not known
  std::string_view payload;
};

// Offsets are the caller's to keep: nothing is committed to Kafka. The messages of a partition come
// in order, each once. Brokers that go away are waited for, with a warning. Used by one thread.
class KafkaReader {
 public:
  // Connects and finds the partitions. `resume` is empty, or where reading continues; a partition
  // that is not in it is read from its beginning. Throws kUnavailable when brokers do not answer in
  // time, kNotFound for a topic that does not exist and for messages that are no longer there,
  // kInvalidArgument for offsets that are not of this topic and in a build without Kafka.
  KafkaReader(const KafkaAddress& address, const std::vector<KafkaOffset>& resume);
  ~KafkaReader();
  KafkaReader(const KafkaReader&) = delete;

  // Of every partition, by number: the first offset that is read.
  const std::vector<KafkaOffset>& start() const;

  // kEnd: with until=now, all of it was read.
  enum class Polled { kRecord, kNothing, kEnd };
  // Waits up to `timeout_ms` for a message and passes it to `take`.
  Polled poll(int timeout_ms, const std::function<void(const KafkaRecord&)>& take);

  // Of every partition, by number: the offset that the next message written to it will get, as far
  // as brokers have said; at least that of the next message that is read.
  std::vector<KafkaOffset> ends() const;

  // Messages that were deleted before they were read (retention_gap=skip).
  int64_t lost_messages() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
