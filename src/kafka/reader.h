// kafka/reader.h - reads the partitions of a topic, all or a share of them, from given offsets on.
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
  int64_t offset = 0;  // offset of the next message

  bool operator==(const KafkaOffset&) const = default;
};

struct KafkaRecord {
  int32_t partition = 0;
  int64_t offset = 0;
  int64_t unix_ms = 0;  // when it was created; 0: not known
  std::string_view payload;
};

// One of `parts` readers that have every partition once together: this one has part, part + parts,
// part + 2 parts, ... It does not depend on the number of partitions, which may grow while readers
// start.
struct KafkaShare {
  int32_t part = 0, parts = 1;

  bool has(int32_t partition) const { return partition % parts == part; }
  // The place of one of its partitions among them.
  size_t index_of(int32_t partition) const { return static_cast<size_t>(partition / parts); }
};

// Offsets are the caller's to keep: nothing is committed to Kafka. The messages of a partition come
// in order, each once. Brokers that go away are waited for. Used by one thread.
class KafkaReader {
 public:
  // Connects and finds the partitions. `resume` is empty, or where reading continues, also of
  // partitions that others read; a partition that is not in it is read from its beginning. Throws
  // kUnavailable when brokers do not answer in time, kNotFound for a topic that does not exist and
  // for messages that are no longer there, kInvalidArgument for offsets that are not of this topic
  // and in a build without Kafka.
  KafkaReader(const KafkaAddress& address, const std::vector<KafkaOffset>& resume,
              KafkaShare share = {});
  ~KafkaReader();
  KafkaReader(const KafkaReader&) = delete;

  // The first offset that is read of every partition of the share, by number.
  const std::vector<KafkaOffset>& start() const;

  // kEnd: with until=now, all of it was read.
  enum class Polled { kRecord, kNothing, kEnd };
  // Waits up to `timeout_ms` for a message and passes it to `take`.
  Polled poll(int timeout_ms, const std::function<void(const KafkaRecord&)>& take);

  // For every partition of the share, by number: the offset that the next message written to
  // it will get, as far as brokers have said; at least that of the next message that is read.
  std::vector<KafkaOffset> ends() const;

  // Why nothing can be read, until messages come again; empty: no reason is known.
  const std::string& problem() const;

  // Messages that were deleted before they were read (retention_gap=skip).
  int64_t lost_messages() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
