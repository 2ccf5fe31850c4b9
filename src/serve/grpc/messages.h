// serve/grpc/messages.h - the messages of the gRPC protocol to and from what the service
// understands. No gRPC here, only protobuf: the transport is in serve/grpc/server.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/grpc/service.pb.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/shared_memory.h"

namespace emblem {

// Where a requested output goes that is not to travel in the answer.
struct SharedOutput {
  std::string output;
  std::string region;
  uint64_t offset = 0;
  SharedMemoryRegions::Part part;
};

struct DecodedInfer {
  std::unique_ptr<InferRequest> request;
  std::vector<SharedOutput> shared_outputs;
  bool marks_final_response = false;  // the client asked for triton_final_response
  // The request is no inference: its inputs are items (parameter change_items: put or remove).
  std::optional<ItemChange> change = {};
};

// The request's inputs point into the message and into copies of shared memory; `memory` of the
// request keeps both, and what they take of `budget` (null: none) beyond the message. Throws
// kInvalidArgument for what contradicts itself: counts and sizes, data types, shapes, both kinds of
// contents, parameters of wrong types or unknown, unknown regions; as MemoryBudget::Lease::grow,
// where the message has `message_bytes` of the budget.
DecodedInfer decode_infer(std::shared_ptr<const inference::ModelInferRequest> message,
                          const SharedMemoryRegions& regions, MemoryBudget* budget = nullptr,
                          size_t message_bytes = 0);

// Writes outputs to shared memory where the request said so and everything else into `message`.
// Throws kInvalidArgument when an output does not fit its region; then `message` is unusable.
void encode_response(InferResponse&& response, const std::vector<SharedOutput>& shared_outputs,
                     inference::ModelInferResponse& message);

// Says in the parameters of a tensor that its data is in shared memory.
void name_shared_memory(google::protobuf::Map<std::string, inference::InferParameter>& parameters,
                        const std::string& region, uint64_t offset, uint64_t bytes);

// The answer to a request that changed items of `model`.
void encode(const std::string& model, const ItemsChanged& changed,
            inference::ModelInferResponse& message);

void encode(const ModelMetadata& metadata, inference::ModelMetadataResponse& message);
void encode(const ModelStatistics& statistics, inference::ModelStatistics& message);

}  // namespace emblem
