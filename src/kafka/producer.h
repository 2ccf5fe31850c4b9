// kafka/producer.h - writes messages into Kafka, and brokers that live in this process: for tools,
// benchmarks and tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace emblem {

// Sent with a message; readers that do not know it ignore it.
struct KafkaHeader {
  const char* name = nullptr;  // null: none
  std::string_view value;
};

// Not thread-safe. Throws kInvalidArgument in a build without Kafka.
class KafkaProducer {
 public:
  explicit KafkaProducer(const std::string& brokers);
  // Instead of real brokers, some that live in this process as long as this object. They keep the
  // newest 5 MB of a partition.
  static KafkaProducer with_mock_brokers(int brokers);
  ~KafkaProducer();
  KafkaProducer(KafkaProducer&&) noexcept;

  std::string brokers() const;  // where others find what was written

  // Sends to the partition of the key or, without one, to any. Messages of a partition stay in
  // order.
  void send(const std::string& topic, std::string_view message, std::string_view key = {},
            const KafkaHeader& header = {});
  void send_to(const std::string& topic, int32_t partition, std::string_view message);
  // Throws kUnavailable when not everything was taken in time, or when messages since the last call
  // were refused by brokers or given up: these are lost.
  void flush(std::chrono::milliseconds timeout);

  // Mock brokers alone.
  void create_topic(const std::string& topic, int partitions);
  void stop_brokers();
  void restart_brokers();
  void refuse_next_messages();  // the next request with messages of a partition

 private:
  struct State;
  explicit KafkaProducer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace emblem
