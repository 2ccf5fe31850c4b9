// kafka/library.h - the functions of librdkafka that Emblem calls. They come with
// libemblem_kafka.so, which is loaded at the first call: programs start without librdkafka.
// Included by .cc files alone, and only where EMBLEM_WITH_KAFKA is defined.
#pragma once

#include <librdkafka/rdkafka.h>
// After the header above.
#include <librdkafka/rdkafka_mock.h>

namespace emblem {

// clang-format off
#define EMBLEM_KAFKA_FUNCTIONS(X) \
  X(rd_kafka_assign) X(rd_kafka_assignment) X(rd_kafka_commit) X(rd_kafka_conf_destroy) \
  X(rd_kafka_conf_new) X(rd_kafka_conf_set) X(rd_kafka_conf_set_dr_msg_cb) \
  X(rd_kafka_conf_set_error_cb) X(rd_kafka_conf_set_log_cb) X(rd_kafka_conf_set_opaque) \
  X(rd_kafka_consumer_close) X(rd_kafka_consumer_poll) X(rd_kafka_destroy) X(rd_kafka_err2str) \
  X(rd_kafka_flush) X(rd_kafka_get_watermark_offsets) X(rd_kafka_handle_mock_cluster) \
  X(rd_kafka_header_add) X(rd_kafka_header_get_last) X(rd_kafka_headers_destroy) \
  X(rd_kafka_headers_new) X(rd_kafka_message_destroy) X(rd_kafka_message_errstr) \
  X(rd_kafka_message_headers) X(rd_kafka_message_timestamp) X(rd_kafka_metadata) \
  X(rd_kafka_metadata_destroy) X(rd_kafka_mock_broker_set_down) X(rd_kafka_mock_broker_set_up) \
  X(rd_kafka_mock_cluster_bootstraps) X(rd_kafka_mock_push_request_errors) \
  X(rd_kafka_mock_topic_create) X(rd_kafka_new) X(rd_kafka_offset_store) \
  X(rd_kafka_offsets_for_times) X(rd_kafka_outq_len) X(rd_kafka_poll) \
  X(rd_kafka_poll_set_consumer) X(rd_kafka_position) X(rd_kafka_producev) \
  X(rd_kafka_query_watermark_offsets) X(rd_kafka_subscribe) X(rd_kafka_topic_destroy) \
  X(rd_kafka_topic_name) X(rd_kafka_topic_new) X(rd_kafka_topic_partition_list_add) \
  X(rd_kafka_topic_partition_list_destroy) X(rd_kafka_topic_partition_list_find) \
  X(rd_kafka_topic_partition_list_new) X(rd_kafka_unsubscribe)
// clang-format on

struct KafkaLibrary {
#define EMBLEM_KAFKA_MEMBER(name) decltype(&::name) name = nullptr;
  EMBLEM_KAFKA_FUNCTIONS(EMBLEM_KAFKA_MEMBER)
#undef EMBLEM_KAFKA_MEMBER
};

// Throws kUnsupported where the library is not there. Thread-safe.
const KafkaLibrary& kafka();

}  // namespace emblem
