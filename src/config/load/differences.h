// config/load/differences.h - in which fields two configurations differ.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Message;
}

namespace emblem {

struct FieldDifference {
  std::string path;           // "train_config.seed", "feature_configs[3].id_feature.embedding_dim"
  std::string first, second;  // the values as text; "unset" where there is none
};

// The fields in which the two messages, of one type, mean different things, in the order of the
// .proto file. An unset field means its default. Fields that `ignored` names, by their path without
// indexes ("train_config.num_threads"), are not compared, nor is anything below them.
std::vector<FieldDifference> differences(const google::protobuf::Message& first,
                                         const google::protobuf::Message& second,
                                         std::span<const std::string_view> ignored = {});

}  // namespace emblem
