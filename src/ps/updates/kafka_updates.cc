#include "ps/updates/kafka_updates.h"

#ifdef EMBLEM_WITH_KAFKA

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "core/system/caught_error.h"
#include "core/system/log.h"
#include "core/system/warn_once.h"
#include "core/threads/start_thread.h"
#include "kafka/handles.h"
#include "ps/updates/update_message.h"

namespace emblem {
namespace {

constexpr int kMetadataTimeoutMs = 1000;

// Valid while the message is.
std::optional<std::string_view> checksum_header(const rd_kafka_message_t& message) {
  rd_kafka_headers_t* headers = nullptr;
  const void* value = nullptr;
  size_t bytes = 0;
  if (kafka().rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
      kafka().rd_kafka_header_get_last(headers, kUpdateChecksumHeader, &value, &bytes) !=
          RD_KAFKA_RESP_ERR_NO_ERROR)
    return std::nullopt;
  return std::string_view(static_cast<const char*>(value), bytes);
}

std::string with_commas(std::string brokers) {
  std::replace(brokers.begin(), brokers.end(), ';', ',');
  return brokers;
}

}  // namespace

struct KafkaUpdates::State {
  // Rows of consecutive messages of one topic, applied together.
  struct Batch {
    std::string topic;
    UpdateRows update;
    int64_t created_unix_ms = 0;
    uint64_t messages = 0;
  };

  Settings settings;
  Apply apply;
  KafkaHandle consumer;
  Batch batch;
  int uncommitted = 0;  // batches

  std::atomic<bool> stop{false};
  std::atomic<uint64_t> messages{0}, refused{0}, unchecked{0}, retries{0}, commits{0};
  std::mutex mutex;
  std::condition_variable wake;  // ends a pause
  std::vector<std::string> topics;
  bool topics_changed = false;
  std::thread thread;

  std::chrono::steady_clock::time_point next_assignment{};

  void run() noexcept;
  template <class Act>
  void try_until_done(Act&& act) noexcept;
  void follow_topics();
  void subscribe();
  KafkaPartitions partitions_of_topics();
  void assign_all_partitions();
  void count_unchecked(const std::string& topic);
  void take(const rd_kafka_message_t& message);
  void apply_batch();
  void commit();
  void pause(std::chrono::milliseconds time);
};

KafkaUpdates::KafkaUpdates(Settings settings, Apply apply) : state_(std::make_unique<State>()) {
  const PsUpdateSource& source = settings.source;
  KafkaSettings conf;
  conf.set("bootstrap.servers", with_commas(source.brokers))
      .set("group.id", settings.group)
      .set("enable.auto.commit", "false")
      .set("enable.auto.offset.store", "false")
      .set("auto.offset.reset", "earliest")
      .set("check.crcs", "true")
      .set("allow.auto.create.topics", "true")
      .set("session.timeout.ms", "10000")
      .set("topic.metadata.refresh.interval.ms",
           std::to_string(source.metadata_refresh_interval_ms))
      .set("fetch.message.max.bytes", std::to_string(source.receive_buffer_size))
      .set("log_level", "3");
  state_->settings = std::move(settings);
  state_->apply = std::move(apply);
  state_->consumer = conf.open(RD_KAFKA_CONSUMER);
  kafka().rd_kafka_poll_set_consumer(state_->consumer.get());
  state_->thread = start_thread("updates from Kafka", [state = state_.get()] { state->run(); });
}

KafkaUpdates::~KafkaUpdates() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
  kafka().rd_kafka_consumer_close(state_->consumer.get());
}

void KafkaUpdates::set_topics(std::vector<std::string> topics) {
  std::lock_guard lock(state_->mutex);
  state_->topics = std::move(topics);
  state_->topics_changed = true;
}

KafkaUpdates::Counts KafkaUpdates::counts() const {
  return {state_->messages, state_->refused, state_->unchecked, state_->retries, state_->commits};
}

void KafkaUpdates::State::run() noexcept {
  const int timeout = std::min(settings.source.poll_timeout_ms, 100);  // to notice changes
  while (!stop) {
    try_until_done([&] { follow_topics(); });
    const KafkaMessage message(kafka().rd_kafka_consumer_poll(consumer.get(), timeout));
    if (message == nullptr) {  // nothing more for now
      try_until_done([&] { apply_batch(); });
      commit();
    } else if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      try_until_done([&] { take(*message); });
    } else if (message->err != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART &&
               message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      try_until_done(
          [&] { log_warn(cat("kafka: ", kafka().rd_kafka_message_errstr(message.get()))); });
      pause(std::chrono::milliseconds(settings.source.failure_backoff_ms));
    }
  }
  commit();
}

// What these steps throw is a lack of memory: a message must not be lost by it.
template <class Act>
void KafkaUpdates::State::try_until_done(Act&& act) noexcept {
  while (!stop) {
    try {
      return act();
    } catch (...) {
      log_caught("kafka");
      pause(std::chrono::milliseconds(std::max(1, settings.source.failure_backoff_ms)));
    }
  }
}

void KafkaUpdates::State::follow_topics() {
  const auto now = std::chrono::steady_clock::now();
  {
    std::lock_guard lock(mutex);
    const bool due = settings.sharing == Sharing::kAlone && now >= next_assignment;
    if (!topics_changed && !due) return;
    topics_changed = false;
  }
  next_assignment = now + std::chrono::milliseconds(settings.source.metadata_refresh_interval_ms);
  if (settings.sharing == Sharing::kGroup) {
    subscribe();
  } else {
    assign_all_partitions();
  }
}

void KafkaUpdates::State::subscribe() {
  std::lock_guard lock(mutex);
  const KafkaPartitions list(
      kafka().rd_kafka_topic_partition_list_new(static_cast<int>(topics.size())));
  for (const std::string& topic : topics) {
    kafka().rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), RD_KAFKA_PARTITION_UA);
  }
  const auto error = topics.empty() ? kafka().rd_kafka_unsubscribe(consumer.get())
                                    : kafka().rd_kafka_subscribe(consumer.get(), list.get());
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    log_error(
        cat("kafka: subscribing to ", topics.size(), " topics: ", kafka().rd_kafka_err2str(error)));
  }
}

// Partitions that exist by now, or null when Kafka does not know.
KafkaPartitions KafkaUpdates::State::partitions_of_topics() {
  std::vector<std::string> names;
  {
    std::lock_guard lock(mutex);
    names = topics;
  }
  KafkaPartitions wanted(kafka().rd_kafka_topic_partition_list_new(static_cast<int>(names.size())));
  for (const std::string& name : names) {
    using Topic =
        std::unique_ptr<rd_kafka_topic_t, KafkaDeleter<&KafkaLibrary::rd_kafka_topic_destroy>>;
    const Topic topic(kafka().rd_kafka_topic_new(consumer.get(), name.c_str(), nullptr));
    const rd_kafka_metadata_t* found = nullptr;
    const auto error =
        kafka().rd_kafka_metadata(consumer.get(), 0, topic.get(), &found, kMetadataTimeoutMs);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
      log_warn(cat("kafka: asking for topic ", name, ": ", kafka().rd_kafka_err2str(error)));
      return nullptr;
    }
    const int64_t offset =
        settings.from_the_beginning ? RD_KAFKA_OFFSET_BEGINNING : RD_KAFKA_OFFSET_STORED;
    for (int i = 0; found->topic_cnt == 1 && i < found->topics[0].partition_cnt; ++i) {
      kafka()
          .rd_kafka_topic_partition_list_add(wanted.get(), name.c_str(),
                                             found->topics[0].partitions[i].id)
          ->offset = offset;
    }
    kafka().rd_kafka_metadata_destroy(found);
  }
  return wanted;
}

void KafkaUpdates::State::assign_all_partitions() {
  const KafkaPartitions wanted = partitions_of_topics();
  if (wanted == nullptr) {  // soon again
    next_assignment = std::chrono::steady_clock::now() +
                      std::chrono::milliseconds(settings.source.failure_backoff_ms);
    return;
  }
  rd_kafka_topic_partition_list_t* assigned = nullptr;
  kafka().rd_kafka_assignment(consumer.get(), &assigned);
  const KafkaPartitions current(assigned);
  kafka().rd_kafka_position(consumer.get(), current.get());
  int kept = 0;
  for (int i = 0; i < current->cnt; ++i) {  // continue where they are
    const rd_kafka_topic_partition_t& at = current->elems[i];
    if (auto* same =
            kafka().rd_kafka_topic_partition_list_find(wanted.get(), at.topic, at.partition)) {
      ++kept;
      if (at.offset >= 0) same->offset = at.offset;
    }
  }
  if (kept == wanted->cnt && kept == current->cnt) return;
  if (const auto error = kafka().rd_kafka_assign(consumer.get(), wanted.get())) {
    log_error(
        cat("kafka: reading ", wanted->cnt, " partitions: ", kafka().rd_kafka_err2str(error)));
  }
}

void KafkaUpdates::State::count_unchecked(const std::string& topic) {
  ++unchecked;
  warn_once("kafka updates without checksums " + topic,
            cat("kafka: messages of topic ", topic, " have no header ", kUpdateChecksumHeader,
                ", so that damage is not noticed; they are applied"));
}

void KafkaUpdates::State::take(const rd_kafka_message_t& message) {
  const std::string topic = kafka().rd_kafka_topic_name(message.rkt);
  UpdateRows update;
  try {
    const std::string_view payload(static_cast<const char*>(message.payload), message.len);
    const auto checksum = checksum_header(message);
    if (checksum) check_update_checksum(payload, *checksum);
    update = parse_update_message(payload, settings.key_bytes);
    if (!checksum) count_unchecked(topic);
  } catch (const Error& error) {
    ++refused;
    log_error(
        cat("kafka: topic ", topic, ", offset ", message.offset, ": skipped: ", error.what()));
  }
  const bool fits = batch.topic == topic && batch.update.dim == update.dim &&
                    static_cast<int64_t>(batch.update.keys.size() + update.keys.size()) <=
                        settings.source.max_batch_size;
  if (!fits) apply_batch();
  if (stop) return;
  // Memory first: from here on nothing fails.
  batch.update.keys.reserve(batch.update.keys.size() + update.keys.size());
  batch.update.rows.reserve(batch.update.rows.size() + update.rows.size());
  if (batch.messages == 0) {
    batch.topic = topic;
    batch.update.dim = update.dim;
  }
  batch.update.keys.insert(batch.update.keys.end(), update.keys.begin(), update.keys.end());
  batch.update.rows.insert(batch.update.rows.end(), update.rows.begin(), update.rows.end());
  batch.created_unix_ms =
      std::max(batch.created_unix_ms, kafka().rd_kafka_message_timestamp(&message, nullptr));
  batch.messages += update.keys.empty() ? 0 : 1;
  // What is stored is committed later, once the batch is applied.
  kafka().rd_kafka_offset_store(message.rkt, message.partition, message.offset);
}

void KafkaUpdates::State::apply_batch() {
  const std::chrono::milliseconds first(std::max(1, settings.source.failure_backoff_ms));
  for (auto backoff = first; batch.messages > 0 && !stop;
       backoff = std::min(backoff * 2, first * 20)) {
    try {
      apply(batch.topic, batch.update.keys, batch.update.rows, batch.update.dim,
            batch.created_unix_ms);
      messages += batch.messages;
      break;
    } catch (...) {
      const Error error = caught_error();
      if (error.code() != ErrorCode::kUnavailable && error.code() != ErrorCode::kOutOfMemory) {
        refused += batch.messages;
        log_error(cat("kafka: topic ", batch.topic, ": skipped: ", error.what()));
        break;
      }
      if (backoff == first) log_warn(cat("kafka: topic ", batch.topic, " waits: ", error.what()));
      ++retries;
    }
    pause(backoff);
  }
  if (stop) return;  // what was not applied must not be committed
  batch = {};
  if (++uncommitted >= settings.source.max_commit_interval) commit();
}

void KafkaUpdates::State::commit() {
  if (uncommitted == 0 || batch.messages > 0) return;
  uncommitted = 0;
  const auto error = kafka().rd_kafka_commit(consumer.get(), nullptr, 0);
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
    ++commits;
  } else if (error != RD_KAFKA_RESP_ERR__NO_OFFSET) {
    try_until_done([&] {
      log_warn(
          cat("kafka: committing: ", kafka().rd_kafka_err2str(error), "; rows may come again"));
    });
  }
}

void KafkaUpdates::State::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex);
  wake.wait_for(lock, time, [&] { return stop.load(); });
}

}  // namespace emblem

#else

#include "emblem/error.h"

namespace emblem {

struct KafkaUpdates::State {};
KafkaUpdates::KafkaUpdates(Settings, Apply) {
  throw Error(ErrorCode::kInvalidArgument,
              "kafka was asked for, but this binary was built without it (install librdkafka-dev "
              "and rebuild with -DEMBLEM_KAFKA=ON)");
}
KafkaUpdates::~KafkaUpdates() = default;
void KafkaUpdates::set_topics(std::vector<std::string>) {}
KafkaUpdates::Counts KafkaUpdates::counts() const { return {}; }

}  // namespace emblem

#endif
