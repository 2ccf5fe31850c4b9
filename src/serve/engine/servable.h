// serve/engine/servable.h - one version of a model, loaded: what it takes and gives, and engines
// that run it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/memory/heap_account.h"
#include "serve/protocol/inference_service.h"

namespace emblem {

class StoredColumns;

// When the parts of a batch's work ended: copying requests in, computing, copying answers out.
struct EngineTimes {
  std::chrono::steady_clock::time_point start, input_end, infer_end, output_end;
};

// A request and its answer while it is in an engine.
struct EngineTask {
  const InferRequest* request = nullptr;
  int64_t rows = 0;
  std::vector<OutputTensor> outputs;  // filled by the engine
  ResponseParameters parameters;      // parameters of the response
  std::optional<Error> error;         // or this
};

// What a request asks of a model, known before anything is allocated for its answer.
struct RequestSize {
  int64_t rows = 0;
  uint64_t answer_bytes = 0;  // bytes of all outputs
};

class BudgetAccount;

// Runs batches; used by one thread at a time.
class Engine {
 public:
  virtual ~Engine();

  // From now on what batches allocate is taken from `budget`, which outlives the engine, before it
  // is allocated: a batch for which nothing is left fails with kUnavailable, and one of a single
  // request that needs more than all of it with kTooLarge. Buffers that are kept
  // between batches stay taken, and are released where they are large or the budget is scarce.
  void take_memory_from(MemoryBudget& budget);

  // Answers all tasks, whose requests have passed Servable::check, and sets all of `times`.
  // Whatever compute() throws becomes the error of the tasks that it has not answered.
  void run(std::span<EngineTask> tasks, EngineTimes& times) noexcept;

 protected:
  // Fills outputs or error of each task; one bad request should not fail the others. May throw
  // anything, after which the engine must be able to run the next batch. `times` begin as now.
  virtual void compute(std::span<EngineTask> tasks, EngineTimes& times) = 0;
  // Frees what is kept between batches.
  virtual void release() {}

 private:
  void compute_counted(std::span<EngineTask> tasks, EngineTimes& times);
  void release_if_scarce() noexcept;

  MemoryBudget* budget_ = nullptr;
  std::shared_ptr<BudgetAccount> account_;
};

// Const methods may be called concurrently. Outlives its engines.
class Servable {
 public:
  virtual ~Servable() = default;

  // Shapes start with -1, the batch.
  virtual std::vector<TensorMetadata> inputs() const = 0;
  virtual std::vector<TensorMetadata> outputs() const = 0;
  // How many a request may name: also those that it gets only then.
  virtual size_t named_outputs() const { return outputs().size(); }
  // What a model configuration should say about the inputs beyond names and shapes.
  virtual std::vector<std::pair<std::string, std::string>> parameters() const { return {}; }

  // Whether it finds items: requests may have the parameters of a search.
  virtual bool has_items() const { return false; }

  // Throws kInvalidArgument when inputs or outputs do not fit the model. Messages never contain
  // values of tensors: these may come from shared memory that the client cannot read itself.
  virtual RequestSize check(const InferRequest& request) const = 0;
  // Whether a batch may wait for another machine or a disk.
  virtual bool may_block() const { return false; }

  virtual std::unique_ptr<Engine> make_engine() const = 0;
  // Columns that are stored with the items of an index; null: there is no index.
  virtual std::shared_ptr<const StoredColumns> stored_columns() const { return nullptr; }
  // InferenceService::change_items of this version, which it does not set. `memory`: what is
  // allocated is taken from it before. May be called concurrently.
  virtual ItemsChanged change_items(const InferRequest& request, ItemChange /*change*/,
                                    MemoryBudget::Lease& /*memory*/) {
    throw Error(ErrorCode::kUnsupported,
                cat("model '", request.model,
                    "' has no index of items; emblem index writes versions that have one"));
  }
  // Why the version is not ready, though it is loaded: requests would fail now, or rows are lost
  // (PsVolatile::ready_while_rows_are_lost). Empty: it is.
  virtual std::string problem() const { return {}; }

  // Prometheus text with labels model and version; see InferenceService::extra_metrics.
  virtual std::string metrics(const std::string& /*labels*/) const { return {}; }
};

}  // namespace emblem
