#include "serve/grpc/messages.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <span>

#include "core/text/text.h"
#include "serve/protocol/request_names.h"

namespace emblem {
namespace {

using inference::InferParameter;
using inference::InferTensorContents;
using inference::ModelInferRequest;
using Parameters = google::protobuf::Map<std::string, InferParameter>;

// What the inputs of a request point to.
struct RequestMemory {
  MemoryBudget::Lease lease;  // for all of the request but copies and message
  std::shared_ptr<const ModelInferRequest> message;
  std::vector<std::vector<std::byte>> converted;
  std::vector<SharedMemoryRegions::Copy> copies;  // copies of shared memory
};

// What inputs and outputs take as the service knows them, without converted contents.
size_t bytes_when_decoded(const ModelInferRequest& message) {
  // Names of an output: in the request, and where it is in shared memory.
  constexpr size_t kNames = 3;
  size_t bytes = 0;
  for (const auto& input : message.inputs())
    bytes += sizeof(InputTensor) + sizeof(SharedMemoryRegions::Copy) + input.name().size() +
             static_cast<size_t>(input.shape_size()) * sizeof(int64_t);
  for (const auto& output : message.outputs())
    bytes += sizeof(RequestedOutput) + 2 * sizeof(SharedOutput) + kNames * output.name().size();
  return bytes + message.model_name().size() + message.id().size();
}

const InferParameter* find(const Parameters& parameters, const char* name) {
  const auto found = parameters.find(name);
  return found == parameters.end() ? nullptr : &found->second;
}

uint64_t unsigned_parameter(const InferParameter& parameter, const std::string& name) {
  if (parameter.has_uint64_param()) return parameter.uint64_param();
  EMBLEM_REQUIRE(parameter.has_int64_param() && parameter.int64_param() >= 0, "parameter ", name,
                 " must be a whole number of at least 0 (int64_param or uint64_param)");
  return static_cast<uint64_t>(parameter.int64_param());
}

int64_t count_parameter(const InferParameter& parameter, const std::string& name) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(unsigned_parameter(parameter, name), kMost));
}

const std::string& text_parameter(const InferParameter& parameter, const std::string& name) {
  EMBLEM_REQUIRE(parameter.has_string_param(), "parameter ", name, " must be a string_param");
  require_name(cat("parameter ", name).c_str(), parameter.string_param());
  return parameter.string_param();
}

ItemChange item_change_of(const std::string& text) {
  EMBLEM_REQUIRE(text == "put" || text == "remove", "parameter change_items is \"", printable(text),
                 "\", expected put or remove");
  return text == "put" ? ItemChange::kPut : ItemChange::kRemove;
}

bool bool_parameter(const InferParameter& parameter, const std::string& name) {
  EMBLEM_REQUIRE(parameter.has_bool_param(), "parameter ", name, " must be a bool_param");
  return parameter.bool_param();
}

// Parameters that say how HTTP carries tensors come from clients that send the same over gRPC.
void check_names(const Parameters& parameters, std::string_view kind, const std::string& tensor,
                 const std::vector<std::string>& known) {
  for (const auto& [name, parameter] : parameters) {
    if (name == "content_type") check_content_type(parameter.string_param());
    if (std::find(known.begin(), known.end(), name) == known.end())
      refuse_unknown("parameter", name, cat(kind, " ", tensor), known);
  }
}

// ---- shared memory ----

struct RegionName {
  std::string region;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

std::optional<RegionName> region_of(const Parameters& parameters, const std::string& tensor) {
  const InferParameter* region = find(parameters, "shared_memory_region");
  const InferParameter* bytes = find(parameters, "shared_memory_byte_size");
  const InferParameter* offset = find(parameters, "shared_memory_offset");
  if (region == nullptr) {
    EMBLEM_REQUIRE(bytes == nullptr && offset == nullptr, "tensor ", tensor,
                   " has a size or an offset in shared memory, but no shared_memory_region");
    return std::nullopt;
  }
  EMBLEM_REQUIRE(region->has_string_param(), "parameter shared_memory_region of tensor ", tensor,
                 " must be a string_param");
  require_name("a shared memory region", region->string_param());
  EMBLEM_REQUIRE(bytes != nullptr, "tensor ", tensor, " is in shared memory region ",
                 region->string_param(), ", but has no shared_memory_byte_size");
  return RegionName{region->string_param(),
                    offset == nullptr ? 0 : unsigned_parameter(*offset, "shared_memory_offset"),
                    unsigned_parameter(*bytes, "shared_memory_byte_size")};
}

// ---- typed contents ----

template <class Field>
std::span<const std::byte> bytes_of(const Field& field) {
  return std::as_bytes(std::span(field.data(), static_cast<size_t>(field.size())));
}

template <class To, class Field>
std::vector<std::byte> narrowed(const Field& field, const std::string& input,
                                MemoryBudget::Lease& lease) {
  lease.grow(static_cast<size_t>(field.size()) * sizeof(To));
  std::vector<std::byte> bytes(static_cast<size_t>(field.size()) * sizeof(To));
  std::byte* at = bytes.data();
  for (const auto value : field) {
    EMBLEM_REQUIRE(std::in_range<To>(value), "input ", input, " has the value ", value,
                   ", which does not fit its data type");
    const To narrow = static_cast<To>(value);
    std::memcpy(at, &narrow, sizeof(To));
    at += sizeof(To);
  }
  return bytes;
}

std::vector<std::byte> length_prefixed(
    const google::protobuf::RepeatedPtrField<std::string>& strings, MemoryBudget::Lease& lease) {
  size_t total = 0;
  for (const std::string& text : strings) total += sizeof(uint32_t) + text.size();
  lease.grow(total);
  std::vector<std::byte> bytes;
  bytes.reserve(total);
  for (const std::string& text : strings) {
    const auto length = static_cast<uint32_t>(text.size());
    const auto* head = reinterpret_cast<const std::byte*>(&length);
    bytes.insert(bytes.end(), head, head + sizeof(length));
    const auto* body = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), body, body + text.size());
  }
  return bytes;
}

// The number of elements in all fields together: more than in the right one means a wrong one.
int64_t total_elements(const InferTensorContents& contents) {
  return int64_t{contents.bool_contents_size()} + contents.int_contents_size() +
         contents.int64_contents_size() + contents.uint_contents_size() +
         contents.uint64_contents_size() + contents.fp32_contents_size() +
         contents.fp64_contents_size() + contents.bytes_contents_size();
}

// Looks at the one field that belongs to the data type; converts what is not stored there as the
// protocol's raw bytes would.
std::span<const std::byte> typed_data(const InputTensor& tensor,
                                      const InferTensorContents& contents, RequestMemory& memory) {
  const auto take = [&](const char* field_name, int size) {
    const int64_t count = element_count(tensor.shape);
    EMBLEM_REQUIRE(size == count && total_elements(contents) == count, "input ", tensor.name, " ",
                   name_of(tensor.type), " ", shape_text(tensor.shape), " needs ", count,
                   " elements in ", field_name, " and none elsewhere, not ", size, " of ",
                   total_elements(contents));
  };
  const auto keep = [&](std::vector<std::byte> bytes) -> std::span<const std::byte> {
    return memory.converted.emplace_back(std::move(bytes));
  };
  switch (tensor.type) {
    case DataType::kBool:
      take("bool_contents", contents.bool_contents_size());
      return bytes_of(contents.bool_contents());
    case DataType::kInt8:
      take("int_contents", contents.int_contents_size());
      return keep(narrowed<int8_t>(contents.int_contents(), tensor.name, memory.lease));
    case DataType::kInt16:
      take("int_contents", contents.int_contents_size());
      return keep(narrowed<int16_t>(contents.int_contents(), tensor.name, memory.lease));
    case DataType::kInt32:
      take("int_contents", contents.int_contents_size());
      return bytes_of(contents.int_contents());
    case DataType::kInt64:
      take("int64_contents", contents.int64_contents_size());
      return bytes_of(contents.int64_contents());
    case DataType::kUint8:
      take("uint_contents", contents.uint_contents_size());
      return keep(narrowed<uint8_t>(contents.uint_contents(), tensor.name, memory.lease));
    case DataType::kUint16:
      take("uint_contents", contents.uint_contents_size());
      return keep(narrowed<uint16_t>(contents.uint_contents(), tensor.name, memory.lease));
    case DataType::kUint32:
      take("uint_contents", contents.uint_contents_size());
      return bytes_of(contents.uint_contents());
    case DataType::kUint64:
      take("uint64_contents", contents.uint64_contents_size());
      return bytes_of(contents.uint64_contents());
    case DataType::kFp32:
      take("fp32_contents", contents.fp32_contents_size());
      return bytes_of(contents.fp32_contents());
    case DataType::kFp64:
      take("fp64_contents", contents.fp64_contents_size());
      return bytes_of(contents.fp64_contents());
    case DataType::kBytes:
      take("bytes_contents", contents.bytes_contents_size());
      return keep(length_prefixed(contents.bytes_contents(), memory.lease));
    case DataType::kFp16:
    case DataType::kBf16:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument,
              cat("input ", tensor.name, ": ", name_of(tensor.type),
                  " has no form in contents; send raw_input_contents instead"));
}

// ---- requests ----

void decode_inputs(const ModelInferRequest& message, const SharedMemoryRegions& regions,
                   InferRequest& request, RequestMemory& memory) {
  const int raw_entries = message.raw_input_contents_size();
  int next_raw = 0, sent_inputs = 0;
  request.inputs.reserve(static_cast<size_t>(message.inputs_size()));
  for (const auto& input : message.inputs()) {
    require_name("an input", input.name());
    require_name("a data type", input.datatype());
    InputTensor& tensor = request.inputs.emplace_back();
    tensor.name = input.name();
    const std::optional<DataType> type = data_type_from_name(input.datatype());
    EMBLEM_REQUIRE(type && input.datatype() == name_of(*type), "input ", input.name(),
                   " has the unknown datatype \"", input.datatype(), "\"");
    tensor.type = *type;
    require_dimensions(tensor.name, static_cast<size_t>(input.shape_size()));
    tensor.shape.assign(input.shape().begin(), input.shape().end());
    const int64_t count = element_count(tensor.shape);
    check_names(input.parameters(), "input", input.name(), input_parameters());

    if (const auto region = region_of(input.parameters(), input.name())) {
      EMBLEM_REQUIRE(!input.has_contents(), "input ", input.name(),
                     " is in shared memory and has contents too; send one of them");
      check_region_bytes(tensor, region->bytes);
      memory.copies.push_back(regions.read(region->region, region->offset, region->bytes));
      tensor.data = memory.copies.back().bytes();
      tensor.in_shared_memory = true;
    } else if (raw_entries > 0) {
      ++sent_inputs;
      EMBLEM_REQUIRE(!input.has_contents(), "input ", input.name(),
                     " has contents, but the request has raw_input_contents too; send one of them");
      if (next_raw == raw_entries) continue;  // counted, and refused below
      tensor.data = std::as_bytes(std::span(message.raw_input_contents(next_raw++)));
    } else if (input.has_contents() || count > 0) {
      EMBLEM_REQUIRE(input.has_contents(), "input ", input.name(),
                     " has no data: neither raw_input_contents nor contents nor shared memory");
      tensor.data = typed_data(tensor, input.contents(), memory);
    }
    check_bytes(tensor);
  }
  EMBLEM_REQUIRE(raw_entries == 0 || raw_entries == sent_inputs, "the request has ", raw_entries,
                 " raw_input_contents for ", sent_inputs, " inputs outside shared memory");
}

void decode_outputs(const ModelInferRequest& message, const SharedMemoryRegions& regions,
                    DecodedInfer& decoded) {
  decoded.request->outputs.reserve(static_cast<size_t>(message.outputs_size()));
  for (const auto& output : message.outputs()) {
    require_name("an output", output.name());
    RequestedOutput wanted{.name = output.name()};
    check_names(output.parameters(), "output", output.name(), output_parameters());
    if (const InferParameter* classes = find(output.parameters(), "classification")) {
      const uint64_t count = unsigned_parameter(*classes, "classification");
      EMBLEM_REQUIRE(count > 0 && count <= std::numeric_limits<int32_t>::max(),
                     "parameter classification of output ", output.name(),
                     " must be a number of classes, at least 1, not ", count);
      wanted.classes = static_cast<int64_t>(count);
    }
    if (const auto region = region_of(output.parameters(), output.name())) {
      EMBLEM_REQUIRE(wanted.classes == 0, "output ", output.name(),
                     " cannot be classified and go to shared memory");
      decoded.shared_outputs.push_back(
          {output.name(), region->region, region->offset,
           regions.part(region->region, region->offset, region->bytes)});
    }
    decoded.request->outputs.push_back(std::move(wanted));
  }
}

bool is_set(const InferParameter& parameter) {
  return parameter.bool_param() || parameter.int64_param() != 0 || parameter.uint64_param() != 0 ||
         parameter.double_param() != 0 || !parameter.string_param().empty();
}

void decode_parameters(const ModelInferRequest& message, DecodedInfer& decoded) {
  for (const auto& [name, parameter] : message.parameters()) {
    require_name("a parameter", name);
    if (name == "priority") {
      decoded.request->priority = unsigned_parameter(parameter, name);
    } else if (name == "timeout") {
      decoded.request->timeout_us = unsigned_parameter(parameter, name);
    } else if (name == "top_k") {
      decoded.request->top_k = count_parameter(parameter, name);
    } else if (name == "filter") {
      decoded.request->filter = text_parameter(parameter, name);
    } else if (name == "probes") {
      decoded.request->probes = count_parameter(parameter, name);
    } else if (name == "then_rank") {
      decoded.request->then_rank = text_parameter(parameter, name);
    } else if (name == "candidates") {
      decoded.request->candidates = count_parameter(parameter, name);
    } else if (name == "rank_output") {
      decoded.request->rank_output = text_parameter(parameter, name);
    } else if (name == "change_items") {
      decoded.change = item_change_of(text_parameter(parameter, name));
    } else if (name == "sequence_id" || name == "sequence_start" || name == "sequence_end") {
      check_sequence_parameter(name, is_set(parameter));
    } else if (name == "triton_enable_empty_final_response") {
      decoded.marks_final_response = bool_parameter(parameter, name);
    } else if (name == "content_type") {
      check_content_type(parameter.string_param());
    } else if (name != "binary_data_output") {  // which clients of HTTP send over gRPC, too
      refuse_unknown("parameter", name, "the request", request_parameters());
    }
  }
}

}  // namespace

DecodedInfer decode_infer(std::shared_ptr<const ModelInferRequest> message,
                          const SharedMemoryRegions& regions, MemoryBudget* budget,
                          size_t message_bytes) {
  auto memory = std::make_shared<RequestMemory>();
  memory->lease = lease_of(budget, message_bytes);
  require_name("a model", message->model_name());
  require_name("a version", message->model_version());
  EMBLEM_REQUIRE(message->id().size() <= kMostIdBytes, "the id has ", message->id().size(),
                 " bytes; at most ", kMostIdBytes, " are allowed");
  memory->lease.grow(bytes_when_decoded(*message));
  DecodedInfer decoded;
  decoded.request = std::make_unique<InferRequest>();
  InferRequest& request = *decoded.request;
  request.model = message->model_name();
  request.version = message->model_version();
  request.id = message->id();
  decode_parameters(*message, decoded);
  decode_inputs(*message, regions, request, *memory);
  decode_outputs(*message, regions, decoded);
  memory->message = std::move(message);
  request.memory = std::move(memory);
  return decoded;
}

void name_shared_memory(Parameters& parameters, const std::string& region, uint64_t offset,
                        uint64_t bytes) {
  // GCC 12 warns of an overflow where a long literal is copied into a node of the map.
  static const std::string region_key = "shared_memory_region", offset_key = "shared_memory_offset",
                           bytes_key = "shared_memory_byte_size";
  parameters[region_key].set_string_param(region);
  parameters[offset_key].set_int64_param(static_cast<int64_t>(offset));
  parameters[bytes_key].set_int64_param(static_cast<int64_t>(bytes));
}

void encode_response(InferResponse&& response, const std::vector<SharedOutput>& shared_outputs,
                     inference::ModelInferResponse& message) {
  message.set_model_name(std::move(response.model));
  message.set_model_version(std::move(response.version));
  message.set_id(std::move(response.id));
  for (const auto& [name, value] : response.parameters)
    (*message.mutable_parameters())[name].set_int64_param(value);
  message.mutable_outputs()->Reserve(static_cast<int>(response.outputs.size()));
  for (const OutputTensor& output : response.outputs) {
    auto* tensor = message.add_outputs();
    tensor->set_name(output.name);
    tensor->set_datatype(name_of(output.type));
    tensor->mutable_shape()->Add(output.shape.begin(), output.shape.end());
    // Clients index the raw contents by the outputs, so that each output has an entry.
    std::string* raw = message.add_raw_output_contents();
    const auto shared =
        std::find_if(shared_outputs.begin(), shared_outputs.end(),
                     [&](const SharedOutput& one) { return one.output == output.name; });
    if (shared == shared_outputs.end()) {
      raw->assign(reinterpret_cast<const char*>(output.data.data()), output.data.size());
      continue;
    }
    EMBLEM_REQUIRE(output.data.size() <= shared->part.size(), "output ", output.name, " has ",
                   output.data.size(), " bytes, but its part of shared memory region ",
                   shared->region, " only ", shared->part.size());
    shared->part.write(output.data);
    name_shared_memory(*tensor->mutable_parameters(), shared->region, shared->offset,
                       output.data.size());
  }
}

// ---- what models say of themselves ----

namespace {

template <class Tensors>
void encode_tensors(const std::vector<TensorMetadata>& tensors, Tensors& messages) {
  for (const TensorMetadata& tensor : tensors) {
    auto* message = messages.Add();
    message->set_name(tensor.name);
    message->set_datatype(name_of(tensor.type));
    message->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  }
}

void encode(const DurationCount& duration, inference::StatisticDuration& message) {
  message.set_count(duration.count);
  message.set_ns(duration.ns);
}

}  // namespace

void encode(const std::string& model, const ItemsChanged& changed,
            inference::ModelInferResponse& message) {
  message.set_model_name(model);
  message.set_model_version(changed.version);
  const std::string change_key = "change", items_key = "items";
  (*message.mutable_parameters())[change_key].set_int64_param(changed.change);
  (*message.mutable_parameters())[items_key].set_int64_param(changed.items);
}

void encode(const ModelMetadata& metadata, inference::ModelMetadataResponse& message) {
  message.set_name(metadata.name);
  for (const std::string& version : metadata.versions) message.add_versions(version);
  message.set_platform(metadata.platform);
  encode_tensors(metadata.inputs, *message.mutable_inputs());
  encode_tensors(metadata.outputs, *message.mutable_outputs());
}

void encode(const ModelStatistics& statistics, inference::ModelStatistics& message) {
  message.set_name(statistics.name);
  message.set_version(statistics.version);
  message.set_last_inference(statistics.last_inference_ms);
  message.set_inference_count(statistics.inference_count);
  message.set_execution_count(statistics.execution_count);
  inference::InferStatistics& times = *message.mutable_inference_stats();
  encode(statistics.success, *times.mutable_success());
  encode(statistics.fail, *times.mutable_fail());
  encode(statistics.queue, *times.mutable_queue());
  encode(statistics.compute_input, *times.mutable_compute_input());
  encode(statistics.compute_infer, *times.mutable_compute_infer());
  encode(statistics.compute_output, *times.mutable_compute_output());
  times.mutable_cache_hit();  // there is no cache of responses; clients read the fields anyway
  times.mutable_cache_miss();
  for (const auto& [size, batch] : statistics.by_batch) {
    auto* entry = message.add_batch_stats();
    entry->set_batch_size(size);
    encode(batch.compute_input, *entry->mutable_compute_input());
    encode(batch.compute_infer, *entry->mutable_compute_infer());
    encode(batch.compute_output, *entry->mutable_compute_output());
  }
}

}  // namespace emblem
