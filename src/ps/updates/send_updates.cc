#include <map>

#include "core/math/finite.h"
#include "emblem/error.h"
#include "ps/updates/kafka_updates.h"
#include "ps/updates/update_message.h"
#include "store/key_bytes.h"

namespace emblem {
namespace {

constexpr size_t kKeyGroups = 8;
constexpr size_t kMessageBytes = 256 << 10;

}  // namespace

void send_updates(KafkaProducer& producer, const std::string& topic, std::span<const int64_t> keys,
                  std::span<const float> rows, int64_t dim, size_t key_bytes) {
  const auto width = static_cast<size_t>(dim);
  EMBLEM_REQUIRE(keys.size() * width == rows.size(), "kafka: ", keys.size(), " keys of dimension ",
                 dim, " do not fit ", rows.size(), " floats");
  EMBLEM_REQUIRE(are_finite(rows), "kafka: topic ", topic,
                 ": rows with NaN or infinite values are not sent");
  struct Group {
    std::vector<int64_t> keys;
    std::vector<float> rows;
  };
  std::map<size_t, Group> groups;
  const auto send = [&](size_t number, Group& group) {
    const std::string message = make_update_message(group.keys, group.rows, dim, key_bytes);
    producer.send(topic, message, std::to_string(number),
                  {kUpdateChecksumHeader, update_checksum(message)});
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

}  // namespace emblem
