#include "serve/engine/retrieval/index_servable.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "config/feature/matching.h"
#include "config/load/load.h"
#include "core/device/workers.h"
#include "core/system/log.h"
#include "core/text/joined.h"
#include "emblem/error.h"
#include "serve/engine/pipeline_servable.h"
#include "serve/engine/retrieval/index_engine.h"
#include "serve/engine/retrieval/item_changes.h"
#include "serve/engine/retrieval/stored_columns.h"

namespace emblem {

namespace fs = std::filesystem;

bool has_index(const std::string& folder) {
  const std::string manifest = cat(kIndexFolder, "/manifest.json");
  if (read_manifest(folder).files.contains(manifest)) return true;
  std::error_code ignored;
  if (fs::exists(fs::path(folder) / kIndexFolder, ignored))
    throw Error(ErrorCode::kCorruption,
                cat(folder, " has a folder ", kIndexFolder,
                    ", but its manifest.json does not list it: the index is of another version"));
  return false;
}

namespace {

// How many vectors the version has for each user.
int64_t vectors_of_users(const std::string& folder) {
  const auto matching = matching_of(load_stored_pipeline(folder).model_config());
  return matching ? matching->vectors : 1;
}

// The folder of the columns that are stored with the items of the version, if it has any.
std::optional<std::string> columns_folder(const std::string& folder) {
  const bool has_columns = std::ranges::any_of(read_manifest(folder).files, [](const auto& file) {
    return file.first.starts_with(cat(kColumnsFolder, "/"));
  });
  if (!has_columns) return std::nullopt;
  return (fs::path(folder) / kColumnsFolder).string();
}

std::unique_ptr<StoredColumns> columns_of(const std::string& folder, const Index& index) {
  const auto stored = columns_folder(folder);
  if (!stored) return std::make_unique<StoredColumns>();
  auto columns = StoredColumns::load(*stored);
  if (columns->saved_items() == index.count()) return columns;
  throw Error(ErrorCode::kCorruption, cat(*stored, " has columns of ", columns->saved_items(),
                                          " items, but the index has ", index.count()));
}

// Names without items.
std::unique_ptr<StoredColumns> describe_columns(const std::string& folder) {
  const auto stored = columns_folder(folder);
  const std::vector<std::string> names =
      stored ? StoredColumns::load_names(*stored) : std::vector<std::string>();
  return std::make_unique<StoredColumns>(names, std::span<const int64_t>(),
                                         std::span<const std::string>());
}

// The only output of the tower.
TensorMetadata vectors_of(const Servable& tower) {
  const std::vector<TensorMetadata> outputs = tower.outputs();
  EMBLEM_REQUIRE(outputs.size() == 1 && outputs[0].shape.size() == 2,
                 "a version with an index has one tower, of users, but this one has the outputs ",
                 joined(outputs, ", ", &TensorMetadata::name));
  return outputs[0];
}

class IndexServable final : public Servable {
 public:
  // Without an index it describes the version.
  IndexServable(std::unique_ptr<Servable> tower, int64_t vectors, int64_t version,
                std::unique_ptr<Index> index, std::unique_ptr<StoredColumns> columns,
                Workers workers, int threads)
      : tower_(std::move(tower)),
        version_(version),
        index_(std::move(index)),
        columns_(std::move(columns)),
        workers_(std::move(workers)),
        threads_(threads),
        vectors_(vectors),
        dim_(vectors_of(*tower_).shape[1] / vectors) {
    for (const TensorMetadata& input : tower_->inputs()) {
      EMBLEM_REQUIRE(!is_retrieval_input(input.name), "the tower of users reads a column \"",
                     input.name,
                     "\", but requests to an index have an input of this name; rename "
                     "the column");
      EMBLEM_REQUIRE(std::ranges::count(columns_->names(), input.name) == 0,
                     "the tower of users reads a column \"", input.name,
                     "\", but a column of this name is stored with the items");
    }
    EMBLEM_REQUIRE(index_ == nullptr || index_->settings().dim == dim_, "the index has vectors of ",
                   index_->settings().dim, " elements, but the tower of users gives ", dim_,
                   ": they are of two models");
  }

  std::vector<TensorMetadata> inputs() const override { return tower_->inputs(); }
  std::vector<TensorMetadata> outputs() const override {
    return {{kFoundIds, DataType::kInt64, {-1, -1}},
            {kFoundScores, DataType::kFp32, {-1, -1}},
            {kFoundCount, DataType::kInt64, {-1, 1}}};
  }
  std::vector<std::pair<std::string, std::string>> parameters() const override {
    auto parameters = tower_->parameters();
    parameters.emplace_back("optional_inputs",
                            cat(kTopK, " INT64 [-1,1], ", kExclude, " INT64 [-1,-1], ", kAllow,
                                " INT64 [-1,-1], ", kUserVector, " FP32 [-1,", dim_, "]"));
    return parameters;
  }
  std::string problem() const override { return tower_->problem(); }
  std::string metrics(const std::string& labels) const override { return tower_->metrics(labels); }
  bool may_block() const override { return tower_->may_block(); }
  bool has_items() const override { return true; }

  RequestSize check(const InferRequest& request) const override {
    const std::vector<std::string> outputs = retrieval_outputs(request);
    const RetrievalRequest asked(request);
    const int64_t rows = asked.user_vector() != nullptr ? asked.check_user_vector(dim_)
                                                        : tower_->check(asked.features()).rows;
    asked.check(rows, *index_);
    const auto values = static_cast<uint64_t>(rows * asked.most_found(rows));
    // With the vectors, which the tower gives out and the engine keeps.
    uint64_t bytes = 2 * static_cast<uint64_t>(rows * vectors_ * dim_) * sizeof(float);
    for (const std::string& name : outputs) {
      if (name == kFoundIds) bytes += values * sizeof(int64_t);
      if (name == kFoundScores) bytes += values * sizeof(float);
      if (name == kFoundCount) bytes += static_cast<uint64_t>(rows) * sizeof(int64_t);
    }
    return {rows, bytes};
  }

  ItemsChanged change_items(const InferRequest& request, ItemChange change,
                            MemoryBudget::Lease& memory) override {
    ItemsChanged changed;
    const std::lock_guard one_at_a_time(changing_);
    changed.change =
        emblem::change_items(workers_.context, *index_, *columns_, request, change, memory);
    changed.items = index_->count();
    return changed;
  }

  std::unique_ptr<Engine> make_engine() const override {
    return std::make_unique<IndexEngine>(
        *index_, version_, [this] { return tower_->make_engine(); }, workers_.context.device,
        threads_);
  }

  std::shared_ptr<const StoredColumns> stored_columns() const override { return columns_; }

 private:
  const std::unique_ptr<Servable> tower_;
  const int64_t version_;
  const std::unique_ptr<Index> index_;
  const std::shared_ptr<StoredColumns> columns_;
  const Workers workers_;  // of changes
  const int threads_;
  std::mutex changing_;          // held while items change
  const int64_t vectors_, dim_;  // of a user; of a vector
};

}  // namespace

std::unique_ptr<Servable> with_index(std::unique_ptr<Servable> tower, int64_t version,
                                     const std::string& folder, const ModelOptions& options) {
  if (!has_index(folder)) return tower;
  const std::string saved = (fs::path(folder) / kIndexFolder).string();
  const bool is_on_gpu = options.gpu.used && Index::is_for_gpu(saved);
  if (options.gpu.used && !is_on_gpu)
    log_info(cat(saved, " is searched on the CPU; only flat indexes are searched on a GPU"));
  Workers workers = is_on_gpu ? make_workers(Device::kCuda, 1) : Workers();
  auto index = Index::load(workers.context, saved);
  auto columns = columns_of(folder, *index);
  return std::make_unique<IndexServable>(std::move(tower), vectors_of_users(folder), version,
                                         std::move(index), std::move(columns), std::move(workers),
                                         options.threads);
}

std::unique_ptr<Servable> describe_version(const std::string& folder) {
  auto tower = describe_pipeline(folder);
  if (!has_index(folder)) return tower;
  return std::make_unique<IndexServable>(std::move(tower), vectors_of_users(folder), 0, nullptr,
                                         describe_columns(folder), Workers(), 1);
}

}  // namespace emblem
