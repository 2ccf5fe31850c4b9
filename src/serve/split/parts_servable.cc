#include "serve/split/parts_servable.h"

#include <charconv>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "config/load/load.h"
#include "config/load/prediction_layout.h"
#include "core/system/log.h"
#include "model/check/check.h"
#include "serve/engine/hps/served_tables.h"
#include "serve/engine/hps/table_sources.h"
#include "serve/engine/retrieval/index_servable.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(PartRange parts) {
  throw Error(ErrorCode::kUnsupported,
              cat("this is a table server (parts ", to_string(parts), " of ", kParts,
                  "), which answers front ends only; send inference requests to these"));
}

class RefusingEngine final : public Engine {
 public:
  explicit RefusingEngine(PartRange parts) : parts_(parts) {}

 protected:
  void compute(std::span<EngineTask>, EngineTimes&) override { refuse(parts_); }

 private:
  PartRange parts_;
};

std::unique_ptr<ServedTables> load_tables(const ModelId& id, const std::string& folder,
                                          ParameterServer& server, PartRange parts) {
  config::PipelineConfig config = load_stored_pipeline(folder);
  check_pipeline(config);
  const FeatureLayout layout = prediction_layout(layout_of(config), config.model_config());
  const Checkpoint checkpoint = open_checkpoint(folder);
  auto tables = std::make_unique<ServedTables>(server, id.model, id.version,
                                               table_sources(config, layout, checkpoint, parts),
                                               checkpoint.manifest.deltas);
  check_unchanged(id, folder);
  return tables;
}

class PartsServable final : public Servable {
 public:
  PartsServable(const ModelId& id, const std::string& folder, ParameterServer& server,
                TableParts& parts)
      : parts_(parts.parts()),
        description_(describe_version(folder)),
        tables_(load_tables(id, folder, server, parts_)),
        holding_(parts.hold(id, tables_->shared_model())) {}

  std::vector<TensorMetadata> inputs() const override { return description_->inputs(); }
  std::vector<TensorMetadata> outputs() const override { return description_->outputs(); }
  std::vector<std::pair<std::string, std::string>> parameters() const override {
    return description_->parameters();
  }
  RequestSize check(const InferRequest&) const override { refuse(parts_); }
  std::unique_ptr<Engine> make_engine() const override {
    return std::make_unique<RefusingEngine>(parts_);
  }
  std::string problem() const override { return tables_->problem(); }
  std::string metrics(const std::string& labels) const override { return tables_->metrics(labels); }

 private:
  const PartRange parts_;
  const std::unique_ptr<Servable> description_;
  const std::unique_ptr<ServedTables> tables_;
  const std::shared_ptr<const void> holding_;
};

// The highest version below this one in the same folder of a repository; 0: none.
int64_t version_before(int64_t version, const fs::path& folder) {
  int64_t before = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int64_t number = 0;
    const auto [last, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_number = problem == std::errc() && last == name.data() + name.size();
    if (is_number && number < version && number > before) before = number;
  }
  return before;
}

// Replaced from the start: dropped unless a front end uses it.
void bring_version_before(const std::string& name, int64_t version, const std::string& folder,
                          ParameterServer& tables, TableParts& parts) {
  const int64_t before = version_before(version, folder);
  if (before == 0) return;
  const std::string older = (fs::path(folder).parent_path() / std::to_string(before)).string();
  try {
    const PartsServable loaded(model_id_of(name, before, older), older, tables, parts);
  } catch (const Error& error) {
    log_warn(cat("model ", name, " version ", before,
                 ", which front ends may still use, cannot be loaded: ", error.what()));
  }
}

}  // namespace

std::unique_ptr<Servable> open_parts(const std::string& name, int64_t version,
                                     const std::string& folder, ParameterServer& tables,
                                     TableParts& parts) {
  const bool is_first = !parts.has(name);
  auto servable =
      std::make_unique<PartsServable>(model_id_of(name, version, folder), folder, tables, parts);
  if (is_first) bring_version_before(name, version, folder, tables, parts);
  return servable;
}

}  // namespace emblem
