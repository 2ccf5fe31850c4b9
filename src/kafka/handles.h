// kafka/handles.h - owners of librdkafka's objects. Included by .cc files alone, and only where
// EMBLEM_WITH_KAFKA is defined.
#pragma once

#include <memory>
#include <string>

#include "emblem/error.h"
#include "kafka/address.h"
#include "kafka/library.h"

namespace emblem {

template <auto kDestroy>
struct KafkaDeleter {
  template <class T>
  void operator()(T* object) const {
    (kafka().*kDestroy)(object);
  }
};
using KafkaHandle = std::unique_ptr<rd_kafka_t, KafkaDeleter<&KafkaLibrary::rd_kafka_destroy>>;
using KafkaMessage =
    std::unique_ptr<rd_kafka_message_t, KafkaDeleter<&KafkaLibrary::rd_kafka_message_destroy>>;
using KafkaPartitions =
    std::unique_ptr<rd_kafka_topic_partition_list_t,
                    KafkaDeleter<&KafkaLibrary::rd_kafka_topic_partition_list_destroy>>;

// Settings on their way into a handle.
class KafkaSettings {
 public:
  KafkaSettings() : conf_(kafka().rd_kafka_conf_new()) {}
  ~KafkaSettings() {
    if (conf_ != nullptr) kafka().rd_kafka_conf_destroy(conf_);
  }
  KafkaSettings(const KafkaSettings&) = delete;

  KafkaSettings& set(const char* key, const std::string& value) {
    char reason[512];
    const bool accepted = kafka().rd_kafka_conf_set(conf_, key, value.c_str(), reason,
                                                    sizeof(reason)) == RD_KAFKA_CONF_OK;
    EMBLEM_REQUIRE(accepted || !is_secret_kafka_property(key), "kafka: the value of ", key,
                   " is not accepted");
    EMBLEM_REQUIRE(accepted, "kafka: ", key, " = ", value, ": ", reason);
    return *this;
  }
  rd_kafka_conf_t* get() { return conf_; }
  KafkaHandle open(rd_kafka_type_t type) {
    char reason[512];
    KafkaHandle handle(kafka().rd_kafka_new(type, conf_, reason, sizeof(reason)));
    EMBLEM_REQUIRE(handle != nullptr, "kafka: ", reason);
    conf_ = nullptr;  // belongs to the handle now
    return handle;
  }

 private:
  rd_kafka_conf_t* conf_;
};

}  // namespace emblem
