// serve/repository/model_server.h - the models of a repository, loaded, replaced and unloaded while
// requests run.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ps/parameter_server.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/model_config.pb.h"
#include "serve/protocol/work_count.h"
#include "serve/repository/model_version.h"
#include "serve/repository/repository.h"
#include "serve/repository/sent_model.h"

namespace emblem {

// What a client asks for when it loads a model.
struct ModelLoadRequest {
  std::string config;                        // a ModelConfig as JSON; empty: the repository's
  std::map<std::string, std::string> files;  // bytes by path; empty: the repository's
};

// The request from the parameters of the protocol: "config", and "file:PATH" for each file.
// Throws kInvalidArgument for files without a configuration, kUnsupported for other parameters.
ModelLoadRequest parse_load_request(const std::string& model,
                                    const std::map<std::string, std::string>& parameters);

struct ModelServerOptions {
  std::string repository;
  // Called whenever the repository is looked at, to bring it up to date; may be empty. Returns the
  // models that could not be fetched, with the reason.
  std::function<std::map<std::string, std::string>()> refresh;
  // kAll loads all models at the start; kPoll also looks for changes; kExplicit loads `models`
  // and what clients ask for.
  enum class Control { kAll, kPoll, kExplicit } control = Control::kAll;
  std::vector<std::string> models;  // kExplicit
  double poll_seconds = 15;         // kPoll
  std::string ps_config;            // HPS's ps.json; empty: tables in memory
  bool on_gpu = false;              // all models that can, whatever their configuration says
  bool strict_readiness = true;     // false: ready whatever became of the models
  bool allow_item_changes = false;  // of models with an index, by clients
  // Threads that the engines of models may have in all whose configuration clients sent with their
  // load requests.
  int max_client_threads = default_client_threads();
  std::string precision;      // precision of layers; empty: as the models say
  std::string row_precision;  // precision of rows in memory; empty: as ps_config says
  // Folders of deltas that training writes, by model.
  std::map<std::string, std::string> deltas;
  TraceOptions trace;
  InferOptions requests;
  OpenServable open = open_servable;
  // Above 0: seconds between attempts to load what was kUnavailable, in any mode.
  double retry_seconds = 0;
  RowService* rows = nullptr;            // rows of a table server
  std::function<std::string()> metrics;  // further ones; may be empty

  static int default_client_threads();  // 4 for each core, at least 16
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

  // Brings what is served up to date with the repository: loads models and versions that are new or
  // have changed, unloads those that are gone. With kExplicit, of the models that are loaded from
  // the repository as they are there: what clients sent stays. What cannot be loaded is logged and
  // listed.
  void look_for_changes();

  bool is_ready() const override;
  bool is_model_ready(const std::string& model, const std::string& version) const override;
  ModelMetadata metadata(const std::string& model, const std::string& version) const override;
  inference::ModelConfig config(const std::string& model,
                                const std::string& version) const override;
  std::vector<ModelStatistics> statistics(const std::string& model,
                                          const std::string& version) const override;
  std::vector<RepositoryEntry> index() const override;
  // Both throw kUnavailable unless models are controlled by clients (kExplicit).
  void load(const std::string& model,
            const std::map<std::string, std::string>& parameters) override;
  void unload(const std::string& model) override;
  void infer(std::unique_ptr<InferRequest> request, InferDone done) override;
  ItemsChanged change_items(const InferRequest& request, ItemChange change) override;
  std::string extra_metrics() const override;
  RowService* rows() override { return options_.rows; }

 private:
  using Versions = std::map<int64_t, std::shared_ptr<ModelVersion>>;
  struct Model {
    inference::ModelConfig config;
    Versions versions;                // ready
    std::string problem;              // problem of the last load; empty when it went well
    int64_t problem_version = 0;      // which could not be loaded; 0: all, or the configuration
    std::shared_ptr<SentModel> sent;  // what it runs from; null: the repository
    bool has_client_config = false;   // its configuration came with a load request
    int client_threads = 0;           // threads of engines, where it did
    bool loading = false;
    bool shall_retry = false;  // the problem may go away by itself
  };

  bool loads_all() const { return options_.control != ModelServerOptions::Control::kExplicit; }
  const Model& find(const std::string& model) const;  // with mutex_ held
  std::shared_ptr<ModelVersion> find(const std::string& model, const std::string& version) const;
  void require_control() const;
  inference::ModelConfig read_config(const std::string& model, const std::string& json) const;
  // Sets `current` to the version that is being loaded. `old` are versions that may run on.
  Versions load_versions(const std::string& model, const Repository& from,
                         const inference::ModelConfig& config, const Versions& old,
                         int64_t& current);
  // The threads that the request's configuration asks for; 0 without one. Throws when that is more
  // than clients may ask for.
  int check_threads(const std::string& model, const ModelLoadRequest& request,
                    const inference::ModelConfig& config, const Repository& from) const;
  // Builds the model and swaps it in.
  void reload(const std::string& model, const ModelLoadRequest& request);
  Model build(const std::string& model, const ModelLoadRequest& request, const Model& old,
              int64_t& current);
  void remove(const std::string& model, const std::string& reason);
  // Keeps the problem for index(), and logs it if it is a new one.
  enum class Retry { kNever, kIfUnavailable };
  void note_problem(const std::string& model, int64_t version, const Error& problem,
                    Retry retry = Retry::kNever);
  // Brings the repository up to date. Returns the models that have no version there because they
  // could not be fetched, with the reason.
  std::map<std::string, std::string> refresh() const;
  // reload() of a model at the start and when polling.
  enum class AtThreadLimit { kThrow, kGoOn };
  void try_load(const std::string& model, AtThreadLimit limit);
  static void append_entries(const std::string& name, const Model& model,
                             std::vector<RepositoryEntry>& entries);
  void trace(InferRequest& request, InferDone& done);
  void infer_ranked(const InferRequest& request, InferDone done);
  void poll() noexcept;
  void look_for_changes(const std::set<std::string>& known);
  void retry_failed();

  const ModelServerOptions options_;
  const Repository repository_;
  ParameterServer tables_;
  mutable std::mutex mutex_;
  std::map<std::string, Model> models_;
  bool draining_ = false;
  WorkCount ranked_;  // requests under way for which two models work

  std::mutex load_mutex_;  // one load at a time
  std::condition_variable stop_polling_;
  std::thread poller_;
};

}  // namespace emblem
