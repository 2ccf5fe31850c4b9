#include "kafka/reader.h"

#include "emblem/error.h"

#ifdef EMBLEM_WITH_KAFKA

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>

#include "core/system/interrupt.h"
#include "core/system/log.h"
#include "core/system/tcp_connect.h"
#include "core/text/text.h"
#include "kafka/handles.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRequestMs = 2000;

struct Partition {
  int64_t next = 0;         // offset of the next message
  int64_t end = INT64_MAX;  // until=now: reading ends before this offset
  bool done = false;
};

// What the error means is known better at the places that call it.
void ignore_log(const rd_kafka_t*, int, const char*, const char*) {}

}  // namespace

struct KafkaReader::State {
  KafkaAddress address;
  KafkaShare share;
  KafkaHandle consumer;
  std::vector<KafkaOffset> start;
  std::vector<Partition> partitions;  // partitions of the share, by number
  int64_t lost = 0;
  std::string last_error;  // that librdkafka reported
  std::string problem;     // the first one, until messages come again

  static void remember_error(rd_kafka_t*, int code, const char* reason, void* state) {
    std::string& error = static_cast<State*>(state)->last_error;
    // Follows the error of a connection, and says less.
    if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && !error.empty()) return;
    error =
        cat(kafka().rd_kafka_err2str(static_cast<rd_kafka_resp_err_t>(code)), " (", reason, ")");
  }

  void open();
  template <class Ask>
  void ask(Ask&& ask);
  int32_t count_partitions();
  [[noreturn]] void throw_unknown_topic(std::span<const rd_kafka_metadata_topic_t> topics);
  int64_t offset_at(int32_t partition, int64_t unix_ms);
  void find_start(int32_t number, const std::vector<KafkaOffset>& resume);
  int64_t after_gap(int32_t partition, int64_t wanted, int64_t first);
  void assign();
  void handle_error(const rd_kafka_message_t& message);
  void skip_gap(int32_t number);
  void fail(const std::string& why);
  bool finished() const;
  Partition& partition(int32_t number) { return partitions[share.index_of(number)]; }
  std::string name(int32_t partition) const { return cat(address.topic, " [", partition, "]"); }
};

void KafkaReader::State::open() {
  KafkaSettings conf;
  conf.set("group.id", "emblem").set("log.connection.close", "false");
  for (const auto& [name, value] : address.properties) conf.set(name.c_str(), value);
  conf.set("bootstrap.servers", address.brokers)
      .set("enable.auto.commit", "false")
      .set("enable.auto.offset.store", "false")
      .set("enable.partition.eof", address.until_now ? "true" : "false")
      .set("auto.offset.reset", "error")
      .set("allow.auto.create.topics", "false");
  kafka().rd_kafka_conf_set_opaque(conf.get(), this);
  kafka().rd_kafka_conf_set_error_cb(conf.get(), remember_error);
  kafka().rd_kafka_conf_set_log_cb(conf.get(), ignore_log);
  consumer = conf.open(RD_KAFKA_CONSUMER);
  kafka().rd_kafka_poll_set_consumer(consumer.get());
}

// Calls ask(timeout_ms), which returns an error of librdkafka, until it succeeds or time is up.
template <class Ask>
void KafkaReader::State::ask(Ask&& ask) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(address.timeout_ms);
  for (;;) {
    const rd_kafka_resp_err_t error = ask(std::clamp<int>(poll_timeout(deadline), 1, kRequestMs));
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
    KafkaMessage(kafka().rd_kafka_consumer_poll(consumer.get(), 0));  // calls remember_error
    if (interrupted()) throw Error(ErrorCode::kCancelled, "interrupted while connecting to Kafka");
    if (Clock::now() >= deadline) {
      throw Error(ErrorCode::kUnavailable,
                  cat("kafka: no answer about topic ", address.topic, " from ", address.brokers,
                      " within ", address.timeout_ms,
                      " ms: ", last_error.empty() ? kafka().rd_kafka_err2str(error) : last_error,
                      "; check the address and that brokers run (timeout_ms allows more time)"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// Asks for all topics: a question for one would create it where brokers do that.
int32_t KafkaReader::State::count_partitions() {
  int32_t count = 0;
  ask([&](int timeout_ms) {
    const rd_kafka_metadata_t* all = nullptr;
    const auto error = kafka().rd_kafka_metadata(consumer.get(), 1, nullptr, &all, timeout_ms);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return error;
    const std::unique_ptr<const rd_kafka_metadata_t,
                          KafkaDeleter<&KafkaLibrary::rd_kafka_metadata_destroy>>
        owned(all);
    const std::span topics(all->topics, static_cast<size_t>(all->topic_cnt));
    const auto found = std::find_if(topics.begin(), topics.end(), [&](const auto& topic) {
      return address.topic == topic.topic;
    });
    if (found == topics.end()) throw_unknown_topic(topics);
    count = found->partition_cnt;
    return found->err;
  });
  return count;
}

void KafkaReader::State::throw_unknown_topic(std::span<const rd_kafka_metadata_topic_t> topics) {
  std::vector<std::string> names;
  for (const auto& topic : topics) names.emplace_back(topic.topic);
  const auto nearest = nearest_name(address.topic, names);
  throw Error(ErrorCode::kNotFound,
              cat("kafka: ", address.brokers, " has no topic \"", printable(address.topic), "\"",
                  nearest ? cat("; did you mean \"", *nearest, "\"?") : "; create it first"));
}

// The offset of the first message of this time or later; -1: there is none.
int64_t KafkaReader::State::offset_at(int32_t partition, int64_t unix_ms) {
  const KafkaPartitions list(kafka().rd_kafka_topic_partition_list_new(1));
  auto* entry =
      kafka().rd_kafka_topic_partition_list_add(list.get(), address.topic.c_str(), partition);
  ask([&](int timeout_ms) {
    entry->offset = unix_ms;
    const auto error = kafka().rd_kafka_offsets_for_times(consumer.get(), list.get(), timeout_ms);
    return error == RD_KAFKA_RESP_ERR_NO_ERROR ? entry->err : error;
  });
  return entry->offset >= 0 ? entry->offset : -1;
}

void KafkaReader::State::find_start(int32_t number, const std::vector<KafkaOffset>& resume) {
  int64_t first = 0, end = 0;
  ask([&](int timeout_ms) {
    return kafka().rd_kafka_query_watermark_offsets(consumer.get(), address.topic.c_str(), number,
                                                    &first, &end, timeout_ms);
  });
  Partition state;
  const auto saved = std::find_if(resume.begin(), resume.end(), [&](const KafkaOffset& each) {
    return each.partition == number;
  });
  if (saved != resume.end()) {
    EMBLEM_REQUIRE(saved->offset <= end, "kafka: reading continues at offset ", saved->offset,
                   " of ", name(number), ", which ends at ", end,
                   "; was the topic created again? Begin a new run with --init-from");
    state.next = saved->offset < first ? after_gap(number, saved->offset, first) : saved->offset;
  } else if (!resume.empty()) {
    state.next = first;  // added since
  } else if (address.start_unix_ms) {
    const int64_t found = offset_at(number, *address.start_unix_ms);
    state.next = found < 0 ? end : found;
  } else {
    state.next = address.start == KafkaAddress::Start::kEarliest ? first : end;
  }
  if (address.until_now) {
    state.end = end;
    state.done = state.next >= end;
  }
  start.push_back({number, state.next});
  partitions.push_back(state);
}

// Where reading continues when the messages from `wanted` to `first` are no longer there.
int64_t KafkaReader::State::after_gap(int32_t partition, int64_t wanted, int64_t first) {
  const std::string what = cat("kafka: ", first - wanted, " messages of ", name(partition),
                               " from offset ", wanted, " on were deleted before they were read");
  if (address.gap == KafkaAddress::Gap::kError)
    throw Error(ErrorCode::kNotFound,
                what + "; keep messages for longer, or skip them with retention_gap=skip");
  log_warn(what + "; skipped");
  lost += first - wanted;
  return first;
}

void KafkaReader::State::assign() {
  const KafkaPartitions list(
      kafka().rd_kafka_topic_partition_list_new(static_cast<int>(partitions.size())));
  for (size_t i = 0; i < partitions.size(); ++i) {
    if (partitions[i].done) continue;
    kafka()
        .rd_kafka_topic_partition_list_add(list.get(), address.topic.c_str(), start[i].partition)
        ->offset = partitions[i].next;
  }
  const auto error = kafka().rd_kafka_assign(consumer.get(), list.get());
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
    throw Error(ErrorCode::kInternal,
                cat("kafka: reading ", address.topic, ": ", kafka().rd_kafka_err2str(error)));
}

bool KafkaReader::State::finished() const {
  return address.until_now && std::all_of(partitions.begin(), partitions.end(),
                                          [](const Partition& each) { return each.done; });
}

void KafkaReader::State::fail(const std::string& why) {
  if (problem.empty() && !partitions.empty()) problem = why;
}

void KafkaReader::State::skip_gap(int32_t number) {
  int64_t first = 0, end = 0;
  Partition& state = partition(number);
  const auto error = kafka().rd_kafka_query_watermark_offsets(consumer.get(), address.topic.c_str(),
                                                              number, &first, &end, kRequestMs);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    fail(kafka().rd_kafka_err2str(error));
  } else {
    EMBLEM_REQUIRE(state.next <= end, "kafka: ", name(number), " ends at ", end,
                   ", but was read up to ", state.next, "; was the topic created again?");
    if (state.next < first) state.next = after_gap(number, state.next, first);
  }
  assign();
}

void KafkaReader::State::handle_error(const rd_kafka_message_t& message) {
  switch (message.err) {
    case RD_KAFKA_RESP_ERR__PARTITION_EOF: {
      Partition& at_end = partition(message.partition);
      if (message.offset >= at_end.end) at_end.done = true;
      return;
    }
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
      return skip_gap(message.partition);
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
      throw Error(ErrorCode::kPermissionDenied, cat("kafka: topic ", address.topic, ": ",
                                                    kafka().rd_kafka_message_errstr(&message)));
    default:
      fail(kafka().rd_kafka_message_errstr(&message));
  }
}

KafkaReader::KafkaReader(const KafkaAddress& address, const std::vector<KafkaOffset>& resume,
                         KafkaShare share)
    : state_(std::make_unique<State>()) {
  state_->address = address;
  state_->share = share;
  state_->open();
  const int32_t partitions = state_->count_partitions();
  for (const KafkaOffset& each : resume)
    EMBLEM_REQUIRE(each.partition >= 0 && each.partition < partitions, "kafka: topic ",
                   address.topic, " has ", partitions, " partitions, but reading continues in ",
                   state_->name(each.partition), "; was the topic created again?");
  for (int32_t i = 0; i < partitions; ++i)
    if (share.has(i)) state_->find_start(i, resume);
  state_->last_error.clear();
  state_->assign();
}

KafkaReader::~KafkaReader() { kafka().rd_kafka_consumer_close(state_->consumer.get()); }

const std::vector<KafkaOffset>& KafkaReader::start() const { return state_->start; }
const std::string& KafkaReader::problem() const { return state_->problem; }
int64_t KafkaReader::lost_messages() const { return state_->lost; }

KafkaReader::Polled KafkaReader::poll(int timeout_ms,
                                      const std::function<void(const KafkaRecord&)>& take) {
  State& state = *state_;
  if (state.finished()) return Polled::kEnd;
  const KafkaMessage message(kafka().rd_kafka_consumer_poll(state.consumer.get(), timeout_ms));
  if (!state.last_error.empty()) state.fail(std::exchange(state.last_error, {}));
  if (message == nullptr) return Polled::kNothing;
  if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
    state.handle_error(*message);
    return state.finished() ? Polled::kEnd : Polled::kNothing;
  }
  state.problem.clear();
  Partition& partition = state.partition(message->partition);
  if (message->offset >= partition.end) partition.done = true;
  if (partition.done || message->offset < partition.next) return Polled::kNothing;
  partition.next = message->offset + 1;
  partition.done = partition.next >= partition.end;
  take({message->partition,
        message->offset,
        std::max<int64_t>(0, kafka().rd_kafka_message_timestamp(message.get(), nullptr)),
        {static_cast<const char*>(message->payload), message->len}});
  return Polled::kRecord;
}

std::vector<KafkaOffset> KafkaReader::ends() const {
  std::vector<KafkaOffset> ends;
  for (size_t i = 0; i < state_->partitions.size(); ++i) {
    int64_t first = 0, end = 0;
    const int32_t number = state_->start[i].partition;
    kafka().rd_kafka_get_watermark_offsets(state_->consumer.get(), state_->address.topic.c_str(),
                                           number, &first, &end);
    ends.push_back({number, std::max(end, state_->partitions[i].next)});
  }
  return ends;
}

}  // namespace emblem

#else

namespace emblem {

struct KafkaReader::State {
  std::vector<KafkaOffset> start;
  std::string problem;
};
KafkaReader::KafkaReader(const KafkaAddress&, const std::vector<KafkaOffset>&, KafkaShare) {
  throw Error(ErrorCode::kInvalidArgument,
              "the input is a topic of Kafka, but this binary was built without it (install "
              "librdkafka-dev and rebuild with -DEMBLEM_KAFKA=ON)");
}
KafkaReader::~KafkaReader() = default;
const std::vector<KafkaOffset>& KafkaReader::start() const { return state_->start; }
const std::string& KafkaReader::problem() const { return state_->problem; }
int64_t KafkaReader::lost_messages() const { return 0; }
KafkaReader::Polled KafkaReader::poll(int, const std::function<void(const KafkaRecord&)>&) {
  return Polled::kEnd;
}
std::vector<KafkaOffset> KafkaReader::ends() const { return {}; }

}  // namespace emblem

#endif
