#include "kafka/producer.h"

#include <utility>

#include "emblem/error.h"

#ifdef EMBLEM_WITH_KAFKA

#include "kafka/handles.h"

namespace emblem {

struct KafkaProducer::State {
  std::string brokers;
  int mock_brokers = 0;
  // Messages that were given up since the last flush.
  int64_t failed = 0;
  std::string first_error;
  KafkaHandle handle;  // ends before what its callbacks write

  // Its thread is the one that sends and flushes.
  static void note_delivery(rd_kafka_t*, const rd_kafka_message_t* message, void* state) {
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) return;
    auto& of = *static_cast<State*>(state);
    if (of.failed++ == 0)
      of.first_error =
          cat("topic ", message->rkt == nullptr ? "" : kafka().rd_kafka_topic_name(message->rkt),
              ", partition ", message->partition, ": ", kafka().rd_kafka_err2str(message->err));
  }
  void open(KafkaSettings& conf) {
    kafka().rd_kafka_conf_set_opaque(conf.get(), this);
    kafka().rd_kafka_conf_set_dr_msg_cb(conf.get(), note_delivery);
    handle = conf.open(RD_KAFKA_PRODUCER);
  }

  rd_kafka_mock_cluster_t* mock() const {
    return kafka().rd_kafka_handle_mock_cluster(handle.get());
  }

  void send(const std::string& topic, int32_t partition, std::string_view key,
            std::string_view message, const KafkaHeader& header = {}) {
    for (;;) {
      using Headers = std::unique_ptr<rd_kafka_headers_t,
                                      KafkaDeleter<&KafkaLibrary::rd_kafka_headers_destroy>>;
      Headers headers(kafka().rd_kafka_headers_new(1));
      if (header.name != nullptr)
        kafka().rd_kafka_header_add(headers.get(), header.name, -1, header.value.data(),
                                    static_cast<ssize_t>(header.value.size()));
      const auto error = kafka().rd_kafka_producev(
          handle.get(), RD_KAFKA_V_TOPIC(topic.c_str()), RD_KAFKA_V_PARTITION(partition),
          RD_KAFKA_V_KEY(key.data(), key.size()),
          RD_KAFKA_V_VALUE(const_cast<char*>(message.data()), message.size()),
          RD_KAFKA_V_HEADERS(headers.get()), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
          RD_KAFKA_V_END);
      if (error == RD_KAFKA_RESP_ERR_NO_ERROR) headers.release();  // belong to the message now
      if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
      if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
        throw Error(ErrorCode::kUnavailable,
                    cat("kafka: topic ", topic, ": ", kafka().rd_kafka_err2str(error)));
      }
      kafka().rd_kafka_poll(handle.get(), 50);
    }
  }
};

KafkaProducer::KafkaProducer(std::unique_ptr<State> state) : state_(std::move(state)) {}
KafkaProducer::KafkaProducer(KafkaProducer&&) noexcept = default;
KafkaProducer::~KafkaProducer() = default;

KafkaProducer::KafkaProducer(const std::string& brokers) : state_(std::make_unique<State>()) {
  KafkaSettings conf;
  conf.set("bootstrap.servers", brokers).set("enable.idempotence", "true").set("log_level", "3");
  state_->open(conf);
  state_->brokers = brokers;
}

KafkaProducer KafkaProducer::with_mock_brokers(int brokers) {
  auto state = std::make_unique<State>();
  KafkaSettings conf;
  conf.set("test.mock.num.brokers", std::to_string(brokers))
      .set("linger.ms", "1")
      .set("log_level", "0");
  state->open(conf);
  state->brokers = kafka().rd_kafka_mock_cluster_bootstraps(state->mock());
  state->mock_brokers = brokers;
  return KafkaProducer(std::move(state));
}

std::string KafkaProducer::brokers() const { return state_->brokers; }

void KafkaProducer::send(const std::string& topic, std::string_view message, std::string_view key,
                         const KafkaHeader& header) {
  state_->send(topic, RD_KAFKA_PARTITION_UA, key, message, header);
}

void KafkaProducer::send_to(const std::string& topic, int32_t partition, std::string_view message) {
  state_->send(topic, partition, {}, message);
}

void KafkaProducer::flush(std::chrono::milliseconds timeout) {
  const auto error =
      kafka().rd_kafka_flush(state_->handle.get(), static_cast<int>(timeout.count()));
  const int64_t failed = std::exchange(state_->failed, 0);
  const std::string first_error = std::exchange(state_->first_error, {});
  if (failed > 0)
    throw Error(ErrorCode::kUnavailable,
                cat("kafka: ", failed, " messages were refused and are lost; the first: ",
                    first_error, "; send them again"));
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
  throw Error(ErrorCode::kUnavailable,
              cat("kafka: ", kafka().rd_kafka_outq_len(state_->handle.get()),
                  " messages were not accepted: ", kafka().rd_kafka_err2str(error)));
}

void KafkaProducer::refuse_next_messages() {
  constexpr int16_t kProduce = 0;  // number of Produce in the protocol
  kafka().rd_kafka_mock_push_request_errors(state_->mock(), kProduce, 1,
                                            RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
}

void KafkaProducer::create_topic(const std::string& topic, int partitions) {
  const auto error =
      kafka().rd_kafka_mock_topic_create(state_->mock(), topic.c_str(), partitions, 1);
  EMBLEM_REQUIRE(error == RD_KAFKA_RESP_ERR_NO_ERROR, "kafka: creating topic ", topic, ": ",
                 kafka().rd_kafka_err2str(error));
}

void KafkaProducer::stop_brokers() {
  for (int i = 1; i <= state_->mock_brokers; ++i)
    kafka().rd_kafka_mock_broker_set_down(state_->mock(), i);
}

void KafkaProducer::restart_brokers() {
  for (int i = 1; i <= state_->mock_brokers; ++i)
    kafka().rd_kafka_mock_broker_set_up(state_->mock(), i);
}

}  // namespace emblem

#else

namespace emblem {

struct KafkaProducer::State {};
KafkaProducer::KafkaProducer(std::unique_ptr<State> state) : state_(std::move(state)) {}
KafkaProducer::KafkaProducer(KafkaProducer&&) noexcept = default;
KafkaProducer::~KafkaProducer() = default;
KafkaProducer::KafkaProducer(const std::string&) {
  throw Error(ErrorCode::kInvalidArgument, "kafka: this binary was built without it");
}
KafkaProducer KafkaProducer::with_mock_brokers(int) { return KafkaProducer(std::string()); }
std::string KafkaProducer::brokers() const { return {}; }
void KafkaProducer::send(const std::string&, std::string_view, std::string_view,
                         const KafkaHeader&) {}
void KafkaProducer::send_to(const std::string&, int32_t, std::string_view) {}
void KafkaProducer::flush(std::chrono::milliseconds) {}
void KafkaProducer::create_topic(const std::string&, int) {}
void KafkaProducer::stop_brokers() {}
void KafkaProducer::restart_brokers() {}
void KafkaProducer::refuse_next_messages() {}

}  // namespace emblem

#endif
