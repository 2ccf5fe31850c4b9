#include "ps/updates/kafka_updates.h"

#ifdef EMBLEM_WITH_KAFKA

#include <librdkafka/rdkafka.h>
// After the header above.
#include <librdkafka/rdkafka_mock.h>

#include <map>

#include "ps/updates/kafka_handles.h"
#include "ps/updates/update_message.h"
#include "store/key_bytes.h"

namespace emblem {
namespace {

constexpr size_t kKeyGroups = 8;
constexpr size_t kMessageBytes = 256 << 10;

}  // namespace

struct KafkaProducer::State {
  KafkaHandle handle;
  std::string brokers;
  size_t key_bytes = 8;

  void produce(const std::string& topic, std::string_view key, std::string_view message) {
    for (;;) {
      const auto error = rd_kafka_producev(
          handle.get(), RD_KAFKA_V_TOPIC(topic.c_str()), RD_KAFKA_V_KEY(key.data(), key.size()),
          RD_KAFKA_V_VALUE(const_cast<char*>(message.data()), message.size()),
          RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
      if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
      if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
        throw Error(ErrorCode::kUnavailable,
                    cat("kafka: topic ", topic, ": ", rd_kafka_err2str(error)));
      }
      rd_kafka_poll(handle.get(), 50);
    }
  }
};

KafkaProducer::KafkaProducer(std::unique_ptr<State> state) : state_(std::move(state)) {}
KafkaProducer::KafkaProducer(KafkaProducer&&) noexcept = default;
KafkaProducer::~KafkaProducer() = default;

KafkaProducer::KafkaProducer(const std::string& brokers, size_t key_bytes)
    : state_(std::make_unique<State>()) {
  KafkaSettings conf;
  conf.set("bootstrap.servers", brokers).set("enable.idempotence", "true").set("log_level", "3");
  state_->handle = conf.open(RD_KAFKA_PRODUCER);
  state_->brokers = brokers;
  state_->key_bytes = key_bytes;
}

KafkaProducer KafkaProducer::with_mock_brokers(int brokers) {
  auto state = std::make_unique<State>();
  KafkaSettings conf;
  conf.set("test.mock.num.brokers", std::to_string(brokers)).set("log_level", "3");
  state->handle = conf.open(RD_KAFKA_PRODUCER);
  state->brokers =
      rd_kafka_mock_cluster_bootstraps(rd_kafka_handle_mock_cluster(state->handle.get()));
  return KafkaProducer(std::move(state));
}

std::string KafkaProducer::brokers() const { return state_->brokers; }

void KafkaProducer::post_raw(const std::string& topic, std::string_view message) {
  state_->produce(topic, {}, message);
}

void KafkaProducer::post(const std::string& topic, std::span<const int64_t> keys,
                         std::span<const float> rows, int64_t dim) {
  const auto width = static_cast<size_t>(dim);
  EMBLEM_REQUIRE(keys.size() * width == rows.size(), "kafka: ", keys.size(), " keys of dimension ",
                 dim, " do not fit ", rows.size(), " floats");
  struct Group {
    std::vector<int64_t> keys;
    std::vector<float> rows;
  };
  std::map<size_t, Group> groups;
  const auto send = [&](size_t number, Group& group) {
    state_->produce(topic, std::to_string(number),
                    make_update_message(group.keys, group.rows, dim, state_->key_bytes));
    group = {};
  };
  for (size_t i = 0; i < keys.size(); ++i) {
    const size_t number = hps_partition_hash(keys[i]) % kKeyGroups;
    Group& group = groups[number];
    group.keys.push_back(keys[i]);
    group.rows.insert(group.rows.end(), rows.begin() + i * width, rows.begin() + (i + 1) * width);
    if (group.rows.size() * sizeof(float) >= kMessageBytes) send(number, group);
  }
  for (auto& [number, group] : groups) {
    if (!group.keys.empty()) send(number, group);
  }
}

void KafkaProducer::flush(std::chrono::milliseconds timeout) {
  const auto error = rd_kafka_flush(state_->handle.get(), static_cast<int>(timeout.count()));
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
  throw Error(ErrorCode::kUnavailable, cat("kafka: ", rd_kafka_outq_len(state_->handle.get()),
                                           " messages were not taken: ", rd_kafka_err2str(error)));
}

}  // namespace emblem

#else

#include "emblem/error.h"

namespace emblem {

struct KafkaProducer::State {};
KafkaProducer::KafkaProducer(std::unique_ptr<State> state) : state_(std::move(state)) {}
KafkaProducer::KafkaProducer(KafkaProducer&&) noexcept = default;
KafkaProducer::~KafkaProducer() = default;
KafkaProducer::KafkaProducer(const std::string&, size_t) {
  throw Error(ErrorCode::kInvalidArgument, "kafka: this binary was built without it");
}
KafkaProducer KafkaProducer::with_mock_brokers(int) { return KafkaProducer(std::string()); }
std::string KafkaProducer::brokers() const { return {}; }
void KafkaProducer::post(const std::string&, std::span<const int64_t>, std::span<const float>,
                         int64_t) {}
void KafkaProducer::post_raw(const std::string&, std::string_view) {}
void KafkaProducer::flush(std::chrono::milliseconds) {}

}  // namespace emblem

#endif
