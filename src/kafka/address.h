// kafka/address.h - a topic as an input: "kafka://host:port,host:port/topic?property=value&...".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/text.h"

namespace emblem {

// Whether this program was built with librdkafka.
bool has_kafka();

// The query of an address holds properties of librdkafka ("group.id", "security.protocol", ...),
// and these:
//   auto.offset.reset=earliest|latest  where a new run begins; default: earliest
//   start.timestamp.ms=T               instead: at the first message of this time or later
//   until=now                          the run ends with the messages that are there at its start
//   max_wait_ms=T                      a batch is trained after this time though it is not full;
//                                      0: batches are always full
//   retention_gap=error|skip           messages that were deleted before they were read
//   timeout_ms=T                       how long brokers may take to answer at the start
//   properties=FILE                    further properties, one "name=value" a line
// Secrets are accepted in FILE alone: addresses are stored in checkpoints and shown in messages.
struct KafkaAddress {
  enum class Start { kEarliest, kLatest };
  enum class Gap { kError, kSkip };

  std::string brokers;  // comma-separated
  std::string topic;
  Start start = Start::kEarliest;
  std::optional<int64_t> start_unix_ms;
  bool until_now = false;
  int max_wait_ms = 1000;
  Gap gap = Gap::kError;
  int timeout_ms = 30000;
  // Properties of librdkafka, in order.
  std::vector<std::pair<std::string, std::string>> properties;
};

// Throws Error for text that is no address, for settings with an invalid value, and for secrets in
// the query. Reads FILE.
KafkaAddress parse_kafka_address(const std::string& text);

// Whether the value of a property must not be shown.
bool is_secret_kafka_property(std::string_view name);

// Whether both name the same messages, wherever the brokers are and however they are read.
bool is_same_kafka_topic(const std::string& address, const std::string& other);

}  // namespace emblem
