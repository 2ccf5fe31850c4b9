#include "ps/updates/update_intake.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "core/system/host_name.h"
#include "core/system/log.h"
#include "core/text/text.h"

namespace emblem {
namespace {

KafkaUpdates::Settings kafka_settings(const PsConfig& config, const Databases& databases) {
  const bool shared = databases.redis != nullptr && databases.rocksdb == nullptr;
  const bool lasting = shared || databases.updates_l3();
  return {.source = config.update_source,
          .key_bytes = config.key_bytes(),
          .group = shared ? "hps.volatile"
                          : cat(lasting ? "hps.persistent." : "hps.volatile.", host_name()),
          .sharing = shared ? KafkaUpdates::Sharing::kGroup : KafkaUpdates::Sharing::kAlone,
          .from_the_beginning = !lasting};
}

}  // namespace

bool is_topic(const std::string& name) {
  constexpr size_t kLongest = 249;
  return name.size() <= kLongest && std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

UpdateIntake::UpdateIntake(const PsConfig& config, const Databases& databases, Models models)
    : models_(std::move(models)) {
  if (config.update_source.type != PsUpdateSource::Type::kKafka) return;
  kafka_ = std::make_unique<KafkaUpdates>(
      kafka_settings(config, databases),
      [this](const std::string& topic, std::span<const int64_t> keys, std::span<const float> rows,
             int64_t dim, int64_t created) { apply(topic, keys, rows, dim, created); });
}

KafkaUpdates::Counts UpdateIntake::counts() const {
  return kafka_ != nullptr ? kafka_->counts() : KafkaUpdates::Counts{};
}

void UpdateIntake::apply(const std::string& topic, std::span<const int64_t> keys,
                         std::span<const float> rows, int64_t dim, int64_t created_unix_ms) const {
  for (const auto& model : models_()) {
    for (const auto& [name, table] : model->tables()) {
      if (table->settings().name != topic) continue;
      EMBLEM_REQUIRE(table->dim() == dim, "table ", topic, " has rows of dimension ", table->dim(),
                     ", but an update's have ", dim);
      try {
        table->apply(keys, rows);
      } catch (...) {
        model->note_error();
        throw;
      }
      model->note_update(created_unix_ms, keys.size());
    }
  }
}

void UpdateIntake::follow_models() {
  if (kafka_ == nullptr) return;
  std::vector<std::string> topics;
  for (const auto& model : models_()) {
    for (const auto& [name, table] : model->tables()) {
      const ServedTableSettings& settings = table->settings();
      if (!settings.update_l2 && !settings.update_l3) continue;
      if (is_topic(settings.name))
        topics.push_back(settings.name);
      else
        log_warn(cat("table ", printable(settings.name),
                     " gets no updates from Kafka: topics have ",
                     "up to 249 letters, digits, \".\", \"_\" and \"-\""));
    }
  }
  std::sort(topics.begin(), topics.end());
  topics.erase(std::unique(topics.begin(), topics.end()), topics.end());
  kafka_->set_topics(std::move(topics));
}

}  // namespace emblem
