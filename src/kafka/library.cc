#ifdef EMBLEM_WITH_KAFKA

#include "kafka/library.h"

#include "core/system/module.h"

namespace emblem {
namespace {

KafkaLibrary load_kafka() {
  const DynamicLibrary library = load_module(
      "kafka", "topics of Kafka need it and librdkafka: install librdkafka1, or Emblem again");
  KafkaLibrary functions;
#define EMBLEM_KAFKA_FIND(name) library.find(#name, functions.name);
  EMBLEM_KAFKA_FUNCTIONS(EMBLEM_KAFKA_FIND)
#undef EMBLEM_KAFKA_FIND
  return functions;
}

}  // namespace

const KafkaLibrary& kafka() {
  static const KafkaLibrary functions = load_kafka();
  return functions;
}

}  // namespace emblem

#endif
