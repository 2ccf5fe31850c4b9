// serve/protocol/inference_service.h - what a server offers, whatever protocol asks for it. HTTP
// and gRPC front ends translate to and from this; serve/repository/model_server.h implements it.
//
// All methods may be called from any thread. Refusals are thrown as Error, whose code maps to one
// HTTP and one gRPC status (serve/protocol/status.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "emblem/error.h"
#include "serve/protocol/memory_budget.h"
#include "serve/protocol/model_statistics.h"
#include "serve/protocol/tensor.h"
#include "serve/protocol/tracing.h"

namespace inference {
class ModelConfig;
}

namespace emblem {

// What a table server answers front ends; the messages are those of ps/remote/row_message.h.
// Thread-safe.
class RowService {
 public:
  virtual ~RowService() = default;

  // Throw kInvalidArgument for what is not such a request, kNotFound for a version that is not
  // held. `lease` grows by what is allocated, before it is, and is left with the bytes of the
  // answer; kUnavailable when its budget is exhausted.
  virtual std::vector<std::byte> rows(std::span<const std::byte> request,
                                      MemoryBudget::Lease& lease) = 0;
  virtual std::string status(std::span<const std::byte> request) = 0;
};

struct RequestedOutput {
  std::string name;
  int64_t classes = 0;  // above 0: see classify()
};

struct InferRequest {
  std::string model;
  std::string version;  // empty: the newest
  std::string id;
  std::vector<InputTensor> inputs;
  std::vector<RequestedOutput> outputs;  // empty: all
  uint64_t priority = 0;                 // 0: the model's default
  uint64_t timeout_us = 0;               // in the queue; 0: the model's default
  // Parameters of models with an index (serve/engine/retrieval); others refuse them.
  std::optional<int64_t> top_k, probes;
  std::string filter;
  // The model that ranks the items found; how many of them; by which of its outputs.
  std::string then_rank;
  std::optional<int64_t> candidates;
  std::string rank_output;
  bool asks_for_items() const {
    return top_k || probes || candidates || !filter.empty() || !then_rank.empty() ||
           !rank_output.empty();
  }

  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();
  // Null unless the request is traced; then filled by those who queue and compute it.
  std::shared_ptr<RequestTrace> trace;
  // Keeps alive what the inputs point to.
  std::shared_ptr<const void> memory;
  std::shared_ptr<MemoryBudget::Lease> answer_memory;  // taken by infer() before it computes
  // Set by the front end when its client has gone; a request that has not started is then
  // dropped, and its Done told kCancelled.
  std::shared_ptr<std::atomic<bool>> cancelled;
};

using ResponseParameters = std::vector<std::pair<std::string, int64_t>>;

struct InferResponse {
  std::string model;
  std::string version;
  std::string id;
  std::vector<OutputTensor> outputs;
  ResponseParameters parameters = {};
  // Memory of the outputs; keep it for as long as these.
  std::shared_ptr<MemoryBudget::Lease> memory;
};

using InferResult = std::variant<InferResponse, Error>;
// Called once, from any thread, possibly before infer() returns. Must not throw or block.
using InferDone = std::function<void(InferResult)>;

// Items are put (new ones, or in the place of those with the same ids) or removed.
enum class ItemChange { kPut, kRemove };

struct ItemsChanged {
  std::string version;  // of the model, whose items changed
  int64_t change = 0;   // number of the change: searches say which was the last that they saw
  int64_t items = 0;    // that the version has now
};

struct TensorMetadata {
  std::string name;
  DataType type = DataType::kFp32;
  std::vector<int64_t> shape;  // with -1 for the batch where the model batches
  // What a client that fills the tensor must know beyond that: ("columns", "C1,C2"): it has these
  // columns; ("values", "sequence" or "weighted"): a row's values are elements, or key:weight.
  std::vector<std::pair<std::string, std::string>> parameters = {};
};

struct ModelMetadata {
  std::string name;
  std::vector<std::string> versions;  // ready ones, ascending
  std::string platform;
  std::vector<TensorMetadata> inputs;
  std::vector<TensorMetadata> outputs;
};

struct RepositoryEntry {
  std::string name;
  std::string version;
  std::string state;  // "READY", "LOADING", "UNLOADING", "UNAVAILABLE"
  std::string reason;
};

class InferenceService {
 public:
  virtual ~InferenceService() = default;

  virtual bool is_ready() const = 0;  // all models that should be are loaded, and not draining

  // `version` empty: the newest. Throw kNotFound for unknown names, kUnavailable for models that
  // are known and not ready.
  virtual bool is_model_ready(const std::string& model, const std::string& version) const = 0;
  virtual ModelMetadata metadata(const std::string& model, const std::string& version) const = 0;
  virtual inference::ModelConfig config(const std::string& model,
                                        const std::string& version) const = 0;
  // `model` empty: of all models; `version` empty: of all versions.
  virtual std::vector<ModelStatistics> statistics(const std::string& model,
                                                  const std::string& version) const = 0;

  // ---- the model repository ----
  virtual std::vector<RepositoryEntry> index() const = 0;
  // Reads the model's folder again and puts the result in the place of what runs; requests under
  // way finish on the old one. `parameters`: "config" holds a ModelConfig as JSON that replaces
  // config.pbtxt, "file:1/NAME" the bytes of a file that replace the model's folder together with
  // others; more are refused.
  virtual void load(const std::string& model,
                    const std::map<std::string, std::string>& parameters) = 0;
  virtual void unload(const std::string& model) = 0;

  // Never throws: what is wrong with the request goes to `done`.
  virtual void infer(std::unique_ptr<InferRequest> request, InferDone done) = 0;

  // Changes the items of a model with an index: all that the request's inputs say
  // (serve/engine/retrieval/item_changes.h), or none where it throws. Searches that begin
  // afterwards see them. They last as long as the version is loaded.
  virtual ItemsChanged change_items(const InferRequest& request, ItemChange /*change*/) {
    throw Error(ErrorCode::kUnsupported,
                cat("model '", request.model, "' has no items that can be changed"));
  }

  // Null: this is not a table server.
  virtual RowService* rows() { return nullptr; }

  // Metrics beyond the statistics (cache tiers, freshness, ...) in Prometheus' text form.
  virtual std::string extra_metrics() const { return {}; }

  // Traces of requests, and their settings.
  Tracing& tracing() { return tracing_; }

 private:
  Tracing tracing_;
};

}  // namespace emblem
