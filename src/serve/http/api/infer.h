// serve/http/api/infer.h - inference requests and responses as HTTP bodies: JSON, and after it the
// tensors of the binary data extension.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/http/message/message.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/shared_memory.h"

namespace emblem {

// How one output is to be sent.
struct OutputForm {
  std::string name;
  bool binary = false;
  std::optional<SharedMemoryRegions::Part> region;  // to be written there, not sent
};

struct OutputForms {
  std::vector<OutputForm> named;
  bool binary = false;  // for outputs that were not named
};

struct InferCall {
  std::unique_ptr<InferRequest> request;
  OutputForms forms;
};

// Binary inputs stay where they are in the body of `http`; those in shared memory are copied.
// Throws kInvalidArgument for what is malformed, kUnsupported for sequences.
InferCall read_infer_request(const HttpRequest& http, std::string model, std::string version,
                             const SharedMemoryRegions& regions);

// No fewer bytes than the JSON has that write_infer_response will write.
size_t json_bytes_of(const InferResponse& response, const OutputForms& forms);

// Throws when an output cannot be sent the way it was asked for.
HttpResponse write_infer_response(InferResponse response, const OutputForms& forms);

}  // namespace emblem
