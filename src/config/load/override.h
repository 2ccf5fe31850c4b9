// config/load/override.h - sets one field of a configuration from the command line.
#pragma once

#include <string>

namespace google::protobuf {
class Message;
}

namespace emblem {

// `assignment` is PATH=VALUE. PATH is names joined by dots; a repeated field takes an index, or [+]
// for a new last element: "train_config.seed", "feature_configs[0].id_feature.embedding_dim",
// "data_config.label_fields[+]". Messages on the way are made when they are missing, and a member
// of a oneof replaces the one that was set. VALUE is a number, a name, text with or without quotes,
// { ... } for a message, or [a, b] for all of a repeated field. Throws Error.
//
// "{NAME}=VALUE" replaces {NAME} by VALUE in every text of `message`.
void apply_override(const std::string& assignment, google::protobuf::Message* message);

}  // namespace emblem
