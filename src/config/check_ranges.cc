#include "config/check_ranges.h"

#include <google/protobuf/descriptor.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "emblem/error.h"

namespace emblem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr uint64_t kMostUnits = 1'000'000;
constexpr uint64_t kMostParts = 1000;

struct Limit {
  std::string_view field;
  uint64_t most;
};

constexpr Limit kLimits[] = {
    // widths of layers and vectors
    {"hidden_units", kMostUnits},
    {"ppnet_hidden_units", kMostUnits},
    {"epnet_hidden_unit", kMostUnits},
    {"cin_layer_size", kMostUnits},
    {"aggregation_dim", kMostUnits},
    {"hidden_dim", kMostUnits},
    {"lcb_feature_num", kMostUnits},
    {"fmb_feature_num", kMostUnits},
    {"compressed_feature_num", kMostUnits},
    {"low_rank", kMostUnits},
    {"wide_embedding_dim", kMostUnits},
    {"embedding_dim", kMostUnits},
    {"num_channels", kMostUnits},
    {"num_class", kMostUnits},
    // parts that are alike
    {"num_expert", kMostParts},
    {"expert_num_per_task", kMostParts},
    {"share_num", kMostParts},
    {"n_mask_blocks", kMostParts},
    {"cross_num", kMostParts},
    {"task_domain_num", kMostParts},
};

// An infinite one of these means no limit.
bool may_be_infinite(const FieldDescriptor& field) {
  return field.name() == "boundaries" || field.name() == "max_gradient";
}

void check_number(const FieldDescriptor& field, double value, const std::string& path) {
  EMBLEM_REQUIRE(std::isfinite(value) || (std::isinf(value) && may_be_infinite(field)), path,
                 " is ", value, ", expected a finite number");
}

void check_size(const FieldDescriptor& field, uint64_t value, const std::string& path) {
  for (const Limit& limit : kLimits)
    EMBLEM_REQUIRE(field.name() != limit.field || value <= limit.most, path, " is ", value,
                   ", expected at most ", limit.most);
}

void check_message(const Message& message, const std::string& path);

// `index` -1: the field is not repeated.
void check_value(const Message& message, const FieldDescriptor& field, int index,
                 const std::string& path) {
  const auto& reflection = *message.GetReflection();
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return check_message(one ? reflection.GetMessage(message, &field)
                               : reflection.GetRepeatedMessage(message, &field, index),
                           path);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return check_number(field,
                          one ? reflection.GetFloat(message, &field)
                              : reflection.GetRepeatedFloat(message, &field, index),
                          path);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return check_number(field,
                          one ? reflection.GetDouble(message, &field)
                              : reflection.GetRepeatedDouble(message, &field, index),
                          path);
    case FieldDescriptor::CPPTYPE_UINT32:
      return check_size(field,
                        one ? reflection.GetUInt32(message, &field)
                            : reflection.GetRepeatedUInt32(message, &field, index),
                        path);
    default:
      return;
  }
}

void check_message(const Message& message, const std::string& path) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string name = path.empty() ? field->name() : path + "." + field->name();
    if (!field->is_repeated()) {
      check_value(message, *field, -1, name);
      continue;
    }
    for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i)
      check_value(message, *field, i, cat(name, "[", i, "]"));
  }
}

}  // namespace

void check_ranges(const config::PipelineConfig& config) { check_message(config, ""); }

}  // namespace emblem
