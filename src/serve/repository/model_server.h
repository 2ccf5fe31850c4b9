// serve/repository/model_server.h - the models of a repository, loaded, replaced and unloaded while
// requests run.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ps/parameter_server.h"
#include "serve/protocol/inference_service.h"
#include "serve/repository/model_version.h"
#include "serve/repository/repository.h"

namespace emblem {

struct ModelServerOptions {
  std::string repository;
  // kAll loads all models at the start; kPoll also looks for changes; kExplicit loads `models`
  // and what clients ask for.
  enum class Control { kAll, kPoll, kExplicit } control = Control::kAll;
  std::vector<std::string> models;  // kExplicit
  double poll_seconds = 15;         // kPoll
  std::string ps_config;            // HPS's ps.json; empty: tables in memory
  bool on_gpu = false;              // all models that can, whatever their configuration says
  std::string precision;            // on a GPU: fp32, bf16 or fp16; empty: as the models say
  // Folders of deltas that training writes, by model.
  std::map<std::string, std::string> deltas;
  InferOptions requests;
  OpenServable open = open_servable;
};

// Thread-safe. Loading builds the new versions next to the old ones and then swaps them in one
// step: no request fails because of it. Versions whose files and configuration did not change run
// on.
class ModelServer final : public InferenceService {
 public:
  // Loads the models. One that cannot be loaded is logged and listed as UNAVAILABLE, but
  // ThreadLimitError is thrown.
  explicit ModelServer(ModelServerOptions options);
  ~ModelServer() override;  // drains

  // Takes no more requests and finishes those under way.
  void drain();

  bool is_ready() const override;
  bool is_model_ready(const std::string& model, const std::string& version) const override;
  ModelMetadata metadata(const std::string& model, const std::string& version) const override;
  inference::ModelConfig config(const std::string& model,
                                const std::string& version) const override;
  std::vector<ModelStatistics> statistics(const std::string& model,
                                          const std::string& version) const override;
  std::vector<RepositoryEntry> index() const override;
  void load(const std::string& model,
            const std::map<std::string, std::string>& parameters) override;
  void unload(const std::string& model) override;
  void infer(std::unique_ptr<InferRequest> request, InferDone done) override;
  std::string extra_metrics() const override;

 private:
  using Versions = std::map<int64_t, std::shared_ptr<ModelVersion>>;
  struct Model {
    inference::ModelConfig config;
    Versions versions;    // ready
    std::string problem;  // of the last load; empty when it went well
    bool loading = false;
  };

  const Model& find(const std::string& model) const;  // with mutex_ held
  std::shared_ptr<ModelVersion> find(const std::string& model, const std::string& version) const;
  inference::ModelConfig read_config(const std::string& model, const std::string& json) const;
  Versions load_versions(const std::string& model, const inference::ModelConfig& config,
                         const Versions& old);
  // load() of a model at the start and when polling: problems are logged.
  enum class AtThreadLimit { kThrow, kLog };
  void try_load(const std::string& model, AtThreadLimit limit);
  void poll() noexcept;
  void look_for_changes(const std::set<std::string>& known);

  const ModelServerOptions options_;
  const Repository repository_;
  ParameterServer tables_;
  mutable std::mutex mutex_;
  std::map<std::string, Model> models_;
  bool draining_ = false;

  std::mutex load_mutex_;  // one load at a time
  std::condition_variable stop_polling_;
  std::thread poller_;
};

}  // namespace emblem
