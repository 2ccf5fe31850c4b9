#include "serve/repository/model_version.h"

#include <algorithm>

#include "core/files/file.h"
#include "core/system/caught_error.h"
#include "core/system/seconds_since.h"
#include "serve/engine/hps/hps_options.h"
#include "serve/engine/hps/hps_servable.h"
#include "serve/engine/model_options.h"
#include "serve/engine/pipeline_servable.h"
#include "serve/engine/retrieval/index_servable.h"
#include "serve/protocol/model_config.pb.h"

namespace emblem {
namespace {

size_t input_bytes(const InferRequest& request) {
  size_t bytes = 0;
  for (const InputTensor& tensor : request.inputs) bytes += tensor.data.size();
  return bytes;
}

}  // namespace

std::unique_ptr<Servable> open_servable(const std::string& name, int64_t version,
                                        const std::string& folder,
                                        const inference::ModelConfig& config,
                                        const std::string& where, ParameterServer& tables) {
  if (config.backend() == kHpsBackend) return open_hps(name, version, config, where, tables);
  ModelOptions options = model_options(config, *describe_version(folder), where);
  for (const PsModel& model : tables.config().models) {
    if (model.name == name) apply_ps_model(model, config, options.gpu);
  }
  return with_index(open_pipeline(name, version, folder, options, tables), version, folder,
                    options);
}

std::string ModelVersion::origin_of(const std::string& folder,
                                    const inference::ModelConfig& config) {
  if (config.backend() == kHpsBackend) return to_text(config) + folder;
  return to_text(config) + read_text_file(folder + "/manifest.json");
}

ModelVersion::ModelVersion(const std::string& name, int64_t version, const std::string& folder,
                           const inference::ModelConfig& config, const std::string& where,
                           ParameterServer& tables, const InferOptions& requests,
                           const OpenServable& open)
    : number_(version),
      origin_(origin_of(folder, config)),
      max_batch_rows_(config.max_batch_size()),
      options_(requests) {
  const auto start = std::chrono::steady_clock::now();
  servable_ = open(name, version, folder, config, where, tables);
  ModelOptions options = model_options(config, *servable_, where);
  if (!options.has_slo) options.batching.slo_p99 = requests.slo_p99;
  std::vector<std::unique_ptr<Engine>> engines;
  for (int i = 0; i < options.instances; ++i) {
    engines.push_back(servable_->make_engine());
    if (requests.memory != nullptr) engines.back()->take_memory_from(*requests.memory);
  }
  scheduler_ = std::make_unique<Scheduler>(
      name, std::to_string(version), options.batching, std::move(engines),
      servable_->may_block() ? Blocking::kPossible : Blocking::kNever);
  load_seconds_ = seconds_since(start);
  loaded_ = std::chrono::system_clock::now();
}

ModelStatistics ModelVersion::statistics() const {
  ModelStatistics statistics = scheduler_->statistics();
  statistics.load_seconds = load_seconds_;
  statistics.loaded_ms = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(loaded_.time_since_epoch()).count());
  return statistics;
}

namespace {

// What classify() makes of the values of an answer.
uint64_t classified_bytes(const InferRequest& request, const RequestSize& size) {
  const bool is_classified =
      std::any_of(request.outputs.begin(), request.outputs.end(),
                  [](const RequestedOutput& output) { return output.classes > 0; });
  return is_classified ? size.answer_bytes / sizeof(float) * kMostClassifiedBytes : 0;
}

}  // namespace

void ModelVersion::check_size(const InferRequest& request, const RequestSize& size) const {
  // Word for word as Triton says it.
  EMBLEM_REQUIRE(max_batch_rows_ == 0 || size.rows <= max_batch_rows_,
                 "[request id: ", request.id.empty() ? "<id_unknown>" : request.id,
                 "] inference request batch-size must be <= ", max_batch_rows_, " for '",
                 request.model, "'");
  EMBLEM_REQUIRE(size.answer_bytes <= options_.max_answer_bytes, "the answer would have ",
                 size.answer_bytes, " bytes, but one of model '", request.model,
                 "' may have up to ", options_.max_answer_bytes,
                 "; send smaller requests or raise --max-response-size");
}

ItemsChanged ModelVersion::change_items(const InferRequest& request, ItemChange change) {
  MemoryBudget::Lease memory = lease_of(options_.memory, input_bytes(request));
  ItemsChanged changed = servable_->change_items(request, change, memory);
  changed.version = std::to_string(number_);
  return changed;
}

bool ModelVersion::infer(std::unique_ptr<InferRequest>& request, InferDone& done) {
  RequestSize size;
  try {
    const size_t outputs = servable_->named_outputs();
    EMBLEM_REQUIRE(request->outputs.size() <= outputs, "expected at most ", outputs,
                   outputs == 1 ? " output" : " outputs", " but ", request->outputs.size(),
                   " are requested from model '", request->model, "'");
    EMBLEM_REQUIRE(servable_->has_items() || !request->asks_for_items(), "model '", request->model,
                   "' finds no items: remove the parameters of a search from the request");
    size = servable_->check(*request);
    check_size(*request, size);
    if (options_.memory != nullptr) {
      request->answer_memory =
          std::make_shared<MemoryBudget::Lease>(*options_.memory, input_bytes(*request));
      request->answer_memory->grow(size.answer_bytes + classified_bytes(*request, size) +
                                   2 * request->id.size());
    }
  } catch (...) {
    const Error error = caught_error();
    scheduler_->count_failure(error.code());
    done(error);
    return true;
  }
  return scheduler_->submit(request, size.rows, done);
}

}  // namespace emblem
