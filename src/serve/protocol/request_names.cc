#include "serve/protocol/request_names.h"

#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "serve/protocol/tensor.h"

namespace emblem {

const std::vector<std::string>& request_parameters() {
  static const std::vector<std::string> kNames = {"priority",
                                                  "timeout",
                                                  "top_k",
                                                  "filter",
                                                  "probes",
                                                  "then_rank",
                                                  "candidates",
                                                  "rank_output",
                                                  "content_type",
                                                  "sequence_id",
                                                  "sequence_start",
                                                  "sequence_end",
                                                  "binary_data_output"};
  return kNames;
}

const std::vector<std::string>& input_parameters() {
  static const std::vector<std::string> kNames = {"binary_data_size", "shared_memory_region",
                                                  "shared_memory_byte_size", "shared_memory_offset",
                                                  "content_type"};
  return kNames;
}

const std::vector<std::string>& output_parameters() {
  static const std::vector<std::string> kNames = {"binary_data",          "classification",
                                                  "shared_memory_region", "shared_memory_byte_size",
                                                  "shared_memory_offset", "content_type"};
  return kNames;
}

void refuse_unknown(std::string_view what, std::string_view name, std::string_view owner,
                    const std::vector<std::string>& known) {
  require_name("a part of the request", name);
  const auto nearest = nearest_name(name, known);
  throw Error(ErrorCode::kInvalidArgument,
              cat(what, " \"", printable(name), "\" of ", owner, " is unknown",
                  nearest ? cat("; did you mean \"", *nearest, "\"?") : "",
                  " (known: ", known.empty() ? std::string("none") : joined(known), ")"));
}

void check_content_type(std::string_view type) {
  EMBLEM_REQUIRE(type == "np" || type == "pd" || type == "str", "parameter content_type is \"",
                 printable(type.substr(0, kMostNameBytes)),
                 "\"; values are read as they are in the tensor: expected np, pd or str");
}

void check_sequence_parameter(std::string_view name, bool is_set) {
  if (is_set)
    throw Error(ErrorCode::kUnsupported,
                cat("parameter ", name,
                    " is set, but models here keep no state between requests; remove it"));
}

}  // namespace emblem
