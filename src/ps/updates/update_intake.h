// ps/updates/update_intake.h - updates from Kafka into the tables of the models that are loaded.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ps/config/databases.h"
#include "ps/config/ps_config.h"
#include "ps/tables/served_model.h"
#include "ps/updates/kafka_updates.h"

namespace emblem {

// Whether Kafka allows a topic of this name.
bool is_topic(const std::string& name);

// Thread-safe.
class UpdateIntake {
 public:
  using Models = std::function<std::vector<std::shared_ptr<ServedModel>>()>;

  // Reads nothing when the configuration names no source of updates.
  UpdateIntake(const PsConfig& config, const Databases& databases, Models models);

  // To be called when models were loaded or unloaded.
  void follow_models();
  KafkaUpdates::Counts counts() const;

 private:
  void apply(const std::string& topic, std::span<const int64_t> keys, std::span<const float> rows,
             int64_t dim, int64_t created_unix_ms) const;

  const Models models_;
  std::unique_ptr<KafkaUpdates> kafka_;
};

}  // namespace emblem
