#include "serve/http/api/infer.h"

#include <algorithm>
#include <cstring>

#include "serve/http/api/json_tensor.h"
#include "serve/protocol/encoding/json_reader.h"
#include "serve/protocol/encoding/json_writer.h"
#include "serve/protocol/request_names.h"

namespace emblem {
namespace {

// What the inputs of one request point to.
struct InputMemory {
  MemoryBudget::Lease lease;  // for all of the request but copies and body
  std::shared_ptr<const void> body;
  std::vector<SharedMemoryRegions::Copy> copies;  // copies of shared memory
  std::vector<std::vector<std::byte>> decoded;
};

// What an input or an output takes in lists that double when they are full.
constexpr size_t kTensorBytes =
    3 * (sizeof(InputTensor) + sizeof(SharedMemoryRegions::Copy) + sizeof(std::vector<std::byte>));
constexpr size_t kOutputBytes = 3 * (sizeof(RequestedOutput) + sizeof(OutputForm) + 1);
constexpr size_t kMostTensors = size_t{1} << 16;

// The parameters of one input or output.
struct TensorParameters {
  std::optional<uint64_t> binary_data_size;
  std::optional<bool> binary_data;
  int64_t classes = 0;
  std::optional<std::string> region;
  std::optional<uint64_t> region_bytes;
  uint64_t region_offset = 0;
};

bool take_null(JsonReader& reader) {
  if (reader.kind() != JsonReader::Kind::kNull) return false;
  reader.skip();
  return true;
}

// `known` names are those of an input or of an output, which is `owner`.
TensorParameters read_tensor_parameters(JsonReader& reader, bool may_use_regions,
                                        std::string_view owner,
                                        const std::vector<std::string>& known) {
  TensorParameters parameters;
  if (take_null(reader)) return parameters;
  reader.object([&](std::string_view key) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      refuse_unknown("parameter", key, owner, known);
    if (key == "binary_data_size") {
      parameters.binary_data_size = reader.uint64();
    } else if (key == "binary_data") {
      parameters.binary_data = reader.boolean();
    } else if (key == "classification") {
      parameters.classes = reader.int64();
      EMBLEM_REQUIRE(parameters.classes > 0, "classification needs at least one class, not ",
                     parameters.classes);
    } else if (key == "shared_memory_region") {
      if (!may_use_regions)
        throw Error(ErrorCode::kPermissionDenied,
                    "shared memory is not open to this client; see --allow-shared-memory and "
                    "--allow-remote-shared-memory of the server");
      parameters.region = reader.string(kMostNameBytes);
    } else if (key == "shared_memory_byte_size") {
      parameters.region_bytes = reader.uint64();
    } else if (key == "shared_memory_offset") {
      parameters.region_offset = reader.uint64();
    } else if (key == "content_type") {
      check_content_type(reader.string(kMostNameBytes));
    }
  });
  return parameters;
}

uint64_t region_bytes(const TensorParameters& parameters, const char* kind,
                      const std::string& name) {
  EMBLEM_REQUIRE(parameters.region_bytes, kind, " ", name,
                 " names a shared memory region without shared_memory_byte_size");
  return *parameters.region_bytes;
}

class RequestReader {
 public:
  RequestReader(const HttpRequest& http, const SharedMemoryRegions& regions)
      : http_(http),
        regions_(regions),
        json_(text_of(json_part(http))),
        binary_(http.body.subspan(json_part(http).size())) {
    memory_.body = http.memory;
    memory_.lease = lease_of(http.memory_budget, http.body.size());
  }

  InferCall read() {
    bool has_inputs = false;
    json_.object([&](std::string_view key) {
      if (key == "inputs") {
        EMBLEM_REQUIRE(!has_inputs, "the request has \"inputs\" twice");
        has_inputs = true;
        json_.array([&] { read_input(); });
      } else if (key == "outputs") {
        if (!take_null(json_)) json_.array([&] { read_output(); });
      } else if (key == "id") {
        if (!take_null(json_)) request_->id = json_.string(kMostIdBytes);
      } else if (key == "parameters") {
        if (!take_null(json_)) json_.object([&](std::string_view name) { read_parameter(name); });
      } else if (key == "model_name" || key == "model_version") {
        json_.skip();  // clients of KServe repeat what the path says
      } else {
        refuse_unknown("member", key, "the request", {"id", "parameters", "inputs", "outputs"});
      }
    });
    json_.end();
    EMBLEM_REQUIRE(has_inputs, "the request has no \"inputs\"");
    EMBLEM_REQUIRE(binary_.empty(), "the body has ", binary_.size(),
                   " bytes after its JSON that no input's binary_data_size claims");
    for (OutputForm& form : forms_.named) {
      if (!is_chosen_[static_cast<size_t>(&form - forms_.named.data())])
        form.binary = forms_.binary;
    }
    hand_over_memory();
    return {std::move(request_), std::move(forms_)};
  }

 private:
  static std::span<const std::byte> json_part(const HttpRequest& http) {
    const size_t bytes = http.json_bytes.value_or(http.body.size());
    EMBLEM_REQUIRE(bytes <= http.body.size(), "Inference-Header-Content-Length is ", bytes,
                   ", but the body has ", http.body.size(), " bytes");
    return http.body.first(bytes);
  }

  void read_parameter(std::string_view name) {
    if (name == "binary_data_output") {
      forms_.binary = json_.boolean();
    } else if (name == "priority") {
      request_->priority = json_.uint64();
    } else if (name == "timeout") {
      request_->timeout_us = json_.uint64();
    } else if (name == "top_k") {
      request_->top_k = json_.int64();
    } else if (name == "filter") {
      request_->filter = json_.string(kMostNameBytes);
    } else if (name == "probes") {
      request_->probes = json_.int64();
    } else if (name == "then_rank") {
      request_->then_rank = json_.string(kMostNameBytes);
    } else if (name == "candidates") {
      request_->candidates = json_.int64();
    } else if (name == "rank_output") {
      request_->rank_output = json_.string(kMostNameBytes);
    } else if (name == "sequence_id") {
      const bool is_text = json_.kind() == JsonReader::Kind::kString;
      check_sequence_parameter(name, is_text ? !json_.string().empty() : json_.uint64() != 0);
    } else if (name == "sequence_start" || name == "sequence_end") {
      check_sequence_parameter(name, json_.boolean());
    } else if (name == "content_type") {
      check_content_type(json_.string(kMostNameBytes));
    } else {
      refuse_unknown("parameter", name, "the request", request_parameters());
    }
  }

  void read_input() {
    EMBLEM_REQUIRE(request_->inputs.size() < kMostTensors, "the request has more than ",
                   kMostTensors, " inputs");
    memory_.lease.grow(kTensorBytes);
    InputTensor input;
    TensorParameters parameters;
    bool has_type = false, has_shape = false;
    std::optional<std::string_view> values;
    json_.object([&](std::string_view key) {
      if (key == "name") {
        input.name = json_.string(kMostNameBytes);
      } else if (key == "datatype") {
        EMBLEM_REQUIRE(!has_type, "input ", input.name, " has two datatypes");
        const std::string name = json_.string(kMostNameBytes);
        const std::optional<DataType> type = data_type_from_name(name);
        EMBLEM_REQUIRE(type && name == name_of(*type), "input ", input.name,
                       " has the unknown datatype ", name);
        input.type = *type;
        has_type = true;
      } else if (key == "shape") {
        EMBLEM_REQUIRE(!has_shape, "input ", input.name, " has two shapes");
        has_shape = true;
        json_.array([&] {
          require_dimensions(input.name, input.shape.size() + 1);
          input.shape.push_back(json_.int64());
        });
      } else if (key == "parameters") {
        parameters = read_tensor_parameters(json_, http_.may_use_regions,
                                            cat("input ", input.name), input_parameters());
      } else if (key == "data") {
        EMBLEM_REQUIRE(!values && input.data.empty(), "input ", input.name, " has its data twice");
        values = has_type && has_shape && !input.name.empty() ? decode(json_, input) : json_.raw();
      } else {
        refuse_unknown("member", key, cat("input ", input.name),
                       {"name", "datatype", "shape", "parameters", "data"});
      }
    });
    EMBLEM_REQUIRE(!input.name.empty(), "an input has no \"name\"");
    EMBLEM_REQUIRE(has_type, "input ", input.name, " has no \"datatype\"");
    EMBLEM_REQUIRE(has_shape, "input ", input.name, " has no \"shape\"");
    find_data(input, parameters, values);
    memory_.lease.grow(input.name.size() + input.shape.size() * sizeof(int64_t));
    request_->inputs.push_back(std::move(input));
  }

  // Reads the values into memory of their own. What it returns stands for "there were values".
  std::string_view decode(JsonReader& values, InputTensor& input) {
    memory_.decoded.push_back(read_json_tensor(values, input, memory_.lease));
    input.data = memory_.decoded.back();
    return {};
  }

  void find_data(InputTensor& input, const TensorParameters& parameters,
                 const std::optional<std::string_view>& values) {
    const int sources =
        (values ? 1 : 0) + (parameters.binary_data_size ? 1 : 0) + (parameters.region ? 1 : 0);
    EMBLEM_REQUIRE(sources == 1, "input ", input.name,
                   " needs exactly one of \"data\", binary_data_size and shared_memory_region");
    if (parameters.region) {
      const uint64_t bytes = region_bytes(parameters, "input", input.name);
      check_region_bytes(input, bytes);
      memory_.copies.push_back(regions_.read(*parameters.region, parameters.region_offset, bytes));
      input.data = memory_.copies.back().bytes();
      input.in_shared_memory = true;
    } else if (parameters.binary_data_size) {
      const uint64_t bytes = *parameters.binary_data_size;
      EMBLEM_REQUIRE(bytes <= binary_.size(), "input ", input.name, " claims ", bytes,
                     " bytes of binary data, but only ", binary_.size(), " are left in the body");
      input.data = binary_.first(bytes);
      binary_ = binary_.subspan(bytes);
    } else if (!values->empty()) {
      JsonReader later(*values);
      decode(later, input);
    }
    check_bytes(input);
  }

  void read_output() {
    EMBLEM_REQUIRE(forms_.named.size() < kMostTensors, "the request has more than ", kMostTensors,
                   " outputs");
    memory_.lease.grow(kOutputBytes);
    OutputForm form;
    TensorParameters parameters;
    json_.object([&](std::string_view key) {
      if (key == "name") {
        form.name = json_.string(kMostNameBytes);
      } else if (key == "parameters") {
        parameters = read_tensor_parameters(json_, http_.may_use_regions,
                                            cat("output ", form.name), output_parameters());
      } else {
        refuse_unknown("member", key, cat("output ", form.name), {"name", "parameters"});
      }
    });
    EMBLEM_REQUIRE(!form.name.empty(), "an output has no \"name\"");
    if (parameters.region)
      form.region = regions_.part(*parameters.region, parameters.region_offset,
                                  region_bytes(parameters, "output", form.name));
    memory_.lease.grow(2 * form.name.size());
    form.binary = parameters.binary_data.value_or(false);
    is_chosen_.push_back(parameters.binary_data.has_value());
    request_->outputs.push_back({form.name, parameters.classes});
    forms_.named.push_back(std::move(form));
  }

  void hand_over_memory() { request_->memory = std::make_shared<InputMemory>(std::move(memory_)); }

  const HttpRequest& http_;
  const SharedMemoryRegions& regions_;
  JsonReader json_;
  std::span<const std::byte> binary_;  // what inputs have not claimed yet
  std::unique_ptr<InferRequest> request_ = std::make_unique<InferRequest>();
  OutputForms forms_;
  std::vector<bool> is_chosen_;  // for forms_.named: binary or not was said
  InputMemory memory_;
};

const OutputForm* form_of(const OutputForms& forms, const std::string& name, size_t at) {
  if (at < forms.named.size() && forms.named[at].name == name) return &forms.named[at];
  for (const OutputForm& form : forms.named) {
    if (form.name == name) return &form;
  }
  return nullptr;
}

void write_to_region(const OutputTensor& output, const SharedMemoryRegions::Part& region) {
  EMBLEM_REQUIRE(output.data.size() <= region.size(), "output ", output.name, " has ",
                 output.data.size(), " bytes, which do not fit into the ", region.size(),
                 " bytes of shared memory that the request gave it");
  region.write(output.data);
}

}  // namespace

InferCall read_infer_request(const HttpRequest& http, std::string model, std::string version,
                             const SharedMemoryRegions& regions) {
  InferCall call = RequestReader(http, regions).read();
  call.request->model = std::move(model);
  call.request->version = std::move(version);
  call.request->cancelled = http.cancelled;
  return call;
}

size_t json_bytes_of(const InferResponse& response, const OutputForms& forms) {
  constexpr size_t kOfAnOutput = 256;  // name (where it is longer, that too), type and shape
  size_t bytes = kOfAnOutput + 6 * response.id.size();
  for (const auto& parameter : response.parameters) bytes += 64 + 6 * parameter.first.size();
  for (size_t i = 0; i < response.outputs.size(); ++i) {
    const OutputForm* form = form_of(forms, response.outputs[i].name, i);
    const bool is_text = form ? !form->binary && !form->region : !forms.binary;
    bytes += kOfAnOutput + 6 * response.outputs[i].name.size();
    if (is_text) bytes += most_json_bytes(response.outputs[i]);
  }
  return bytes;
}

HttpResponse write_infer_response(InferResponse response, const OutputForms& forms) {
  HttpResponse http;
  http.is_compressible = true;
  JsonWriter json;
  json.text().reserve(json_bytes_of(response, forms));
  json.object([&] {
    if (!response.id.empty()) json.key("id").string(response.id);
    json.key("model_name").string(response.model);
    json.key("model_version").string(response.version);
    if (!response.parameters.empty()) {
      json.key("parameters").object([&] {
        for (const auto& [name, value] : response.parameters) json.key(name).number(value);
      });
    }
    json.key("outputs").array([&] {
      for (size_t i = 0; i < response.outputs.size(); ++i) {
        OutputTensor& output = response.outputs[i];
        const OutputForm* form = form_of(forms, output.name, i);
        json.object([&] {
          json.key("name").string(output.name);
          json.key("datatype").string(name_of(output.type));
          json.key("shape").array([&] {
            for (const int64_t size : output.shape) json.number(size);
          });
          // Clients take "parameters" as the promise of a binary_data_size.
          if (form && form->region) {
            write_to_region(output, *form->region);
          } else if (form ? form->binary : forms.binary) {
            json.key("parameters").object([&] {
              json.key("binary_data_size").number(output.data.size());
            });
            http.tensors.push_back(std::move(output.data));
          } else {
            json.key("data");
            append_json_tensor(json.text(), output);
          }
        });
      }
    });
  });
  http.body = std::move(json.text());
  if (!http.tensors.empty()) {
    http.memory = std::move(response.memory);
    http.content_type = "application/octet-stream";
    http.headers.emplace_back("Inference-Header-Content-Length", std::to_string(http.body.size()));
  }
  return http;
}

}  // namespace emblem
