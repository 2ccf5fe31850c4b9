#include "serve/repository/model_server.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <ranges>
#include <set>
#include <string_view>

#include "core/files/file.h"
#include "core/system/caught_error.h"
#include "core/system/log.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "core/threads/start_thread.h"
#include "emblem/error.h"
#include "serve/engine/hps/hps_options.h"
#include "serve/engine/model_options.h"
#include "serve/engine/retrieval/index_servable.h"
#include "serve/engine/without_effect.h"
#include "serve/repository/ranked_search.h"
#include "serve/repository/repository.h"

namespace emblem {
namespace {

int64_t parse_version(const std::string& text) {
  int64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  EMBLEM_REQUIRE(error == std::errc() && end == text.data() + text.size() && version > 0,
                 "version '", text, "' is not valid; expected a number above 0");
  return version;
}

PsConfig ps_config_of(const ModelServerOptions& options) {
  PsConfig config = options.ps_config.empty() ? PsConfig{} : load_ps_config(options.ps_config);
  if (options.row_precision.empty()) return config;
  EMBLEM_REQUIRE(config.volatile_db.type == PsVolatile::Type::kHashMap,
                 "--row-precision is for tables in memory, but ", options.ps_config,
                 " keeps rows elsewhere");
  config.volatile_db.row_type = parse_dtype(options.row_precision).value();
  return config;
}

}  // namespace

ModelLoadRequest parse_load_request(const std::string& model,
                                    const std::map<std::string, std::string>& parameters) {
  constexpr std::string_view kFile = "file:";
  // Parsed, it takes up to a hundred times that.
  constexpr size_t kMostConfigBytes = size_t{256} << 10;
  ModelLoadRequest request;
  for (const auto& [key, value] : parameters) {
    EMBLEM_REQUIRE(key != "config" || value.size() <= kMostConfigBytes,
                   "load: parameter 'config' has ", value.size(), " bytes; at most ",
                   kMostConfigBytes, " are allowed");
    if (key == "config")
      request.config = value;
    else if (key.starts_with(kFile))
      request.files[key.substr(kFile.size())] = value;
    else
      throw Error(ErrorCode::kUnsupported,
                  cat("load: parameter '", printable(key),
                      "' is not supported; expected config or file:VERSION/FILE"));
  }
  EMBLEM_REQUIRE(request.files.empty() || !request.config.empty(), "failed to load '", model,
                 "', override files are given without parameter 'config'; the model's folder in "
                 "the repository is not used with them");
  return request;
}

int ModelServerOptions::default_client_threads() {
  return std::max(16, 4 * static_cast<int>(std::thread::hardware_concurrency()));
}

ModelServer::ModelServer(ModelServerOptions options)
    : options_(std::move(options)),
      repository_(options_.repository),
      tables_(ps_config_of(options_)) {
  tracing().start(options_.trace);
  const std::map<std::string, std::string> absent = refresh();
  if (repository_.models().empty() && absent.empty()) {
    const std::string text = no_models_text(repository_.path());
    options_.control == ModelServerOptions::Control::kAll ? log_warn(text) : log_info(text);
  }
  const bool all = loads_all();
  for (const std::string& model : all ? repository_.models() : options_.models)
    if (!absent.contains(model)) try_load(model, AtThreadLimit::kThrow);
  for (const auto& [model, reason] : absent)
    if (all || std::ranges::find(options_.models, model) != options_.models.end())
      note_problem(model, 0, Error(ErrorCode::kUnavailable, reason));
  for (const auto& [model, folder] : options_.deltas) {
    if (!models_.contains(model))
      log_warn(cat("--deltas ", model, "=", folder, ": no model ", model, " is loaded yet"));
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored))
      log_warn(cat("--deltas ", model, "=", folder,
                   ": folder not found; deltas are applied once it exists"));
    tables_.watch_deltas(model, folder);
  }
  if (options_.control == ModelServerOptions::Control::kPoll || options_.retry_seconds > 0)
    poller_ = start_thread("looking for new models", [this] { poll(); });
}

ModelServer::~ModelServer() { drain(); }

void ModelServer::drain() {
  std::map<std::string, Model> models;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    models = models_;
  }
  stop_polling_.notify_all();
  if (poller_.joinable()) poller_.join();
  ranked_.wait_until_none();
  for (auto& [name, model] : models) {
    for (auto& [number, version] : model.versions) version->close();
  }
}

void ModelServer::poll() noexcept {
  using Clock = std::chrono::steady_clock;
  const bool polls = options_.control == ModelServerOptions::Control::kPoll;
  const double retry = options_.retry_seconds > 0 ? options_.retry_seconds : options_.poll_seconds;
  const std::chrono::duration<double> each(options_.poll_seconds);
  const std::chrono::duration<double> pause(polls ? std::min(options_.poll_seconds, retry) : retry);
  auto last_look = Clock::now();
  std::unique_lock lock(mutex_);
  while (!stop_polling_.wait_for(lock, pause, [&] { return draining_; })) {
    std::set<std::string> known;
    try {
      for (const auto& [name, model] : models_) known.insert(name);
      lock.unlock();
      if (polls && Clock::now() - last_look >= each) {
        look_for_changes(known);
        last_look = Clock::now();
      } else {
        retry_failed();
      }
    } catch (...) {
      log_caught("model repository");
    }
    if (!lock.owns_lock()) lock.lock();
  }
}

void ModelServer::retry_failed() {
  std::vector<std::string> failed;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, model] : models_)
      if (model.shall_retry) failed.push_back(name);
  }
  for (const std::string& name : failed) try_load(name, AtThreadLimit::kGoOn);
}

std::map<std::string, std::string> ModelServer::refresh() const {
  if (!options_.refresh) return {};
  std::map<std::string, std::string> absent = options_.refresh();
  for (const std::string& model : repository_.models())
    if (!repository_.versions(model).empty()) absent.erase(model);
  return absent;
}

void ModelServer::look_for_changes() {
  std::set<std::string> known;
  {
    const std::lock_guard lock(mutex_);
    if (draining_) throw Error(ErrorCode::kUnavailable, "the server is shutting down");
    for (const auto& [name, model] : models_)
      if (loads_all() || (!model.versions.empty() && !model.sent && !model.has_client_config))
        known.insert(name);
  }
  look_for_changes(known);
}

void ModelServer::look_for_changes(const std::set<std::string>& known) {
  const std::map<std::string, std::string> absent = refresh();
  const std::vector<std::string> there = repository_.models();
  for (const std::string& name : there)
    if (!absent.contains(name) && (loads_all() || known.contains(name)))
      try_load(name, AtThreadLimit::kGoOn);
  for (const std::string& name : known) {
    if (!std::binary_search(there.begin(), there.end(), name) && !absent.contains(name))
      remove(name, "it is not in the repository any more");
  }
  for (const auto& [model, reason] : absent)
    if (loads_all() || known.contains(model))
      note_problem(model, 0, Error(ErrorCode::kUnavailable, reason));
}

void ModelServer::try_load(const std::string& model, AtThreadLimit limit) {
  try {
    reload(model, {});
  } catch (const ThreadLimitError&) {
    if (limit == AtThreadLimit::kThrow) throw;
  } catch (...) {  // noted for index(), unless there is no such model
    bool is_known = false;
    {
      const std::lock_guard lock(mutex_);
      is_known = models_.contains(model);
    }
    if (!is_known) note_problem(model, 0, caught_error());
  }
}

void ModelServer::note_problem(const std::string& name, int64_t version, const Error& error,
                               Retry retry) {
  const std::string problem = error.what();
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    Model& model = models_[name];
    is_new = model.problem != problem || model.problem_version != version;
    model.loading = false;
    model.problem = problem;
    model.problem_version = version;
    model.shall_retry = retry == Retry::kIfUnavailable && options_.retry_seconds > 0 &&
                        error.code() == ErrorCode::kUnavailable;
  }
  if (is_new)
    log_warn(cat("model ", name, version > 0 ? cat(" version ", version) : "",
                 " cannot be loaded: ", problem));
}

void ModelServer::require_control() const {
  using Control = ModelServerOptions::Control;
  if (options_.control == Control::kExplicit) return;
  throw Error(
      ErrorCode::kUnavailable,
      cat("explicit model load / unload is not allowed if ",
          options_.control == Control::kPoll ? "polling is enabled" : "model control mode is NONE",
          "; start the server with --model-control-mode explicit"));
}

inference::ModelConfig ModelServer::read_config(const std::string& model,
                                                const std::string& json) const {
  const std::string file = repository_.config_file(model);
  inference::ModelConfig config;
  if (!json.empty()) {
    config = parse_model_config_json(json, "model " + model);
  } else if (repository_.has_config(model)) {
    config = parse_model_config(read_text_file(file), file);
  } else {
    const std::vector<int64_t> versions = repository_.versions(model);
    EMBLEM_REQUIRE(!versions.empty(), repository_.folder(model),
                   " has no version (a folder named 1, 2, ...)");
    config =
        default_model_config(model, *describe_version(repository_.folder(model, versions.back())));
  }
  EMBLEM_REQUIRE(config.name().empty() || config.name() == model, file, ": name is '",
                 config.name(), "', but the folder's is '", model, "'");
  config.set_name(model);
  if (options_.on_gpu) move_to_gpu(config);
  set_precision(config, options_.precision);
  return config;
}

ModelServer::Versions ModelServer::load_versions(const std::string& model, const Repository& from,
                                                 const inference::ModelConfig& config,
                                                 const Versions& old, int64_t& current) {
  const std::string where = repository_.config_file(model);
  check_backend(config, where);
  const std::vector<int64_t> there = from.versions(model);
  EMBLEM_REQUIRE(!there.empty(), from.folder(model), " has no version (a folder named 1, 2, ...)");
  Versions versions;
  for (const int64_t number : choose_versions(config, there, where)) {
    current = number;
    const std::string folder = from.folder(model, number);
    if (options_.deltas.contains(model) && config.backend() != kHpsBackend && has_index(folder))
      throw Error(ErrorCode::kUnsupported,
                  cat("version ", number, " has an index of items, whose vectors --deltas ", model,
                      " would not change; serve it without --deltas, and write new versions with "
                      "emblem index"));
    const auto same = old.find(number);
    if (same != old.end() && same->second->origin() == ModelVersion::origin_of(folder, config)) {
      versions[number] = same->second;
    } else {
      versions[number] = std::make_shared<ModelVersion>(model, number, folder, config, where,
                                                        tables_, options_.requests, options_.open);
      log_info(cat("model ", model, " version ", number, " is ready after ",
                   format_duration(versions[number]->statistics().load_seconds)));
    }
  }
  return versions;
}

int ModelServer::check_threads(const std::string& name, const ModelLoadRequest& request,
                               const inference::ModelConfig& config, const Repository& from) const {
  if (request.config.empty()) return 0;
  const std::string where = cat("load of model ", name);
  const EngineCount engines = engine_count(config, where);
  const auto versions =
      static_cast<int64_t>(choose_versions(config, from.versions(name), where).size());
  const int64_t wanted = versions * engines.all_threads();
  int64_t used = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [other, model] : models_) used += other == name ? 0 : model.client_threads;
  }
  EMBLEM_REQUIRE(used + wanted <= options_.max_client_threads, where,
                 ": its configuration asks for ", wanted, " engine threads (versions: ", versions,
                 ", instances of each: ", engines.instances, ", threads of each: ", engines.threads,
                 "), and other models have ", used, "; configurations of clients may ask for ",
                 options_.max_client_threads, " in all (--max-client-threads)");
  return static_cast<int>(wanted);
}

void ModelServer::load(const std::string& name,
                       const std::map<std::string, std::string>& parameters) {
  require_control();
  const ModelLoadRequest request = parse_load_request(name, parameters);
  const std::map<std::string, std::string> absent = refresh();
  if (const auto found = absent.find(name); found != absent.end() && request.files.empty())
    throw Error(ErrorCode::kUnavailable, found->second);
  reload(name, request);
}

ModelServer::Model ModelServer::build(const std::string& name, const ModelLoadRequest& request,
                                      const Model& old, int64_t& current) {
  Model model;
  MemoryBudget::Lease parsing = lease_of(options_.requests.memory);
  parsing.grow(parsing_bytes(request.files));
  if (!request.files.empty()) model.sent = std::make_shared<SentModel>(name, request.files);
  const Repository& from = model.sent ? model.sent->repository() : repository_;
  model.config = read_config(name, request.config);
  model.has_client_config = !request.config.empty();
  model.client_threads = check_threads(name, request, model.config, from);
  // Files that were sent may differ under the same manifest.
  const bool may_run_on = !model.sent && !old.sent;
  model.versions =
      load_versions(name, from, model.config, may_run_on ? old.versions : Versions{}, current);
  if (!model.versions.empty() && to_text(model.config) != to_text(old.config))
    warn_of_settings_without_effect(model.config, model.versions.rbegin()->second->servable(),
                                    repository_.config_file(name));
  return model;
}

void ModelServer::reload(const std::string& name, const ModelLoadRequest& request) {
  const std::lock_guard one_at_a_time(load_mutex_);
  if (request.files.empty()) repository_.versions(name);  // is it there at all?
  EMBLEM_REQUIRE(is_model_name(name), "'", printable(name), "' is not a valid name of a model");
  Model old;
  bool is_known = true;
  {
    const std::lock_guard lock(mutex_);
    if (draining_) throw Error(ErrorCode::kUnavailable, "the server is shutting down");
    is_known = request.files.empty() || models_.contains(name);
    models_[name].loading = true;
    old = models_[name];
  }
  int64_t current = 0;
  try {
    Model model = build(name, request, old, current);
    const std::lock_guard lock(mutex_);
    models_[name] = std::move(model);
  } catch (...) {
    if (is_known) {
      const bool is_plain = request.files.empty() && request.config.empty();
      note_problem(name, current, caught_error(), is_plain ? Retry::kIfUnavailable : Retry::kNever);
    } else {  // neither here nor in the repository
      const std::lock_guard lock(mutex_);
      models_.erase(name);
    }
    throw;
  }
  for (auto& [number, version] : old.versions) {
    bool replaced = false;
    {
      const std::lock_guard lock(mutex_);
      const Versions& now = models_[name].versions;
      const auto found = now.find(number);
      replaced = found == now.end() || found->second != version;
    }
    if (replaced) version->close();
  }
}

void ModelServer::unload(const std::string& name) {
  require_control();
  remove(name, "a client asked for it");
}

void ModelServer::remove(const std::string& name, const std::string& reason) {
  const std::lock_guard one_at_a_time(load_mutex_);
  Model old;
  {
    const std::lock_guard lock(mutex_);
    find(name);
    std::swap(old, models_[name]);
    models_[name].config = old.config;
    models_[name].problem = "unloaded";
  }
  if (!old.versions.empty()) log_warn(cat("model ", name, " is unloaded: ", reason));
  for (auto& [number, version] : old.versions) version->close();
}

const ModelServer::Model& ModelServer::find(const std::string& name) const {
  const auto found = models_.find(name);
  if (found != models_.end()) return found->second;
  const std::string known = joined(std::views::keys(models_));
  throw Error(ErrorCode::kNotFound,
              cat("Request for unknown model: '", name, "' is not found; there ",
                  known.empty() ? "are no models" : "is " + known));
}

std::shared_ptr<ModelVersion> ModelServer::find(const std::string& name,
                                                const std::string& version) const {
  const std::lock_guard lock(mutex_);
  const Model& model = find(name);
  if (model.versions.empty()) {
    throw Error(ErrorCode::kUnavailable, cat("model '", name, "' is not ready: ",
                                             model.loading ? "it is being loaded" : model.problem));
  }
  if (version.empty()) return model.versions.rbegin()->second;
  const auto found = model.versions.find(parse_version(version));
  if (found != model.versions.end()) return found->second;
  throw Error(ErrorCode::kNotFound,
              cat("Request for unknown model: '", name, "' version ", version, " is not found"));
}

bool ModelServer::is_ready() const {
  const std::lock_guard lock(mutex_);
  if (draining_) return false;
  if (!options_.strict_readiness) return true;
  // Without a model no request can be answered, whether there was none or it was removed.
  const bool waits_for_clients = options_.control == ModelServerOptions::Control::kExplicit;
  const bool has_model = std::any_of(models_.begin(), models_.end(), [](const auto& entry) {
    return !entry.second.versions.empty();
  });
  if (!has_model && !waits_for_clients) return false;
  return std::none_of(models_.begin(), models_.end(), [](const auto& entry) {
    const Versions& versions = entry.second.versions;
    if (versions.empty()) return entry.second.problem != "unloaded";
    return std::any_of(versions.begin(), versions.end(), [](const auto& version) {
      return !version.second->servable().problem().empty();
    });
  });
}

bool ModelServer::is_model_ready(const std::string& model, const std::string& version) const {
  const std::string problem = find(model, version)->servable().problem();
  if (!problem.empty()) throw Error(ErrorCode::kUnavailable, problem);
  return true;
}

ModelMetadata ModelServer::metadata(const std::string& name, const std::string& version) const {
  const std::shared_ptr<ModelVersion> found = find(name, version);
  ModelMetadata metadata{.name = name, .platform = "emblem"};
  metadata.inputs = found->servable().inputs();
  metadata.outputs = found->servable().outputs();
  const std::lock_guard lock(mutex_);
  for (const auto& [number, one] : find(name).versions)
    metadata.versions.push_back(std::to_string(number));
  return metadata;
}

inference::ModelConfig ModelServer::config(const std::string& name,
                                           const std::string& version) const {
  find(name, version);
  const std::lock_guard lock(mutex_);
  return find(name).config;
}

std::vector<ModelStatistics> ModelServer::statistics(const std::string& name,
                                                     const std::string& version) const {
  std::vector<std::shared_ptr<ModelVersion>> versions;
  if (!version.empty()) {
    versions.push_back(find(name, version));
  } else {
    const std::lock_guard lock(mutex_);
    if (!name.empty()) find(name);
    for (const auto& [model, entry] : models_) {
      if (!name.empty() && model != name) continue;
      for (const auto& [number, one] : entry.versions) versions.push_back(one);
    }
  }
  std::vector<ModelStatistics> statistics;
  for (const auto& one : versions) statistics.push_back(one->statistics());
  return statistics;
}

// Versions that run, and the one that cannot be loaded. A problem of no version in particular
// stands with the newest one that runs.
void ModelServer::append_entries(const std::string& name, const Model& model,
                                 std::vector<RepositoryEntry>& entries) {
  const int64_t newest = model.versions.empty() ? 0 : model.versions.rbegin()->first;
  const int64_t broken = model.problem_version > 0 ? model.problem_version : newest;
  for (const auto& [number, version] : model.versions) {
    const std::string now = version->servable().problem();
    entries.push_back({name, std::to_string(number), now.empty() ? "READY" : "UNAVAILABLE",
                       !now.empty()       ? now
                       : number == broken ? model.problem
                                          : ""});
  }
  if (model.versions.contains(broken)) return;
  entries.push_back({name, broken > 0 ? std::to_string(broken) : "",
                     model.loading ? "LOADING" : "UNAVAILABLE", model.problem});
}

std::vector<RepositoryEntry> ModelServer::index() const {
  std::vector<RepositoryEntry> entries;
  std::set<std::string> listed;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, model] : models_) {
      listed.insert(name);
      append_entries(name, model, entries);
    }
  }
  for (const std::string& name : repository_.models()) {
    if (!listed.contains(name)) entries.push_back({name, "", "UNAVAILABLE", "not loaded"});
  }
  return entries;
}

// Has the request traced if that is asked for.
void ModelServer::trace(InferRequest& request, InferDone& done) {
  request.trace = tracing().sample(request.model);
  if (!request.trace) return;
  request.trace->id = request.id;
  request.trace->times.start = request.arrived;
  done = [this, trace = request.trace, done = std::move(done)](InferResult result) {
    if (const auto* response = std::get_if<InferResponse>(&result))
      trace->version = response->version;
    done(std::move(result));
    trace->times.end = std::chrono::steady_clock::now();
    try {
      tracing().write(*trace);
    } catch (...) {
      log_caught("a trace could not be written");
    }
  };
}

void ModelServer::infer(std::unique_ptr<InferRequest> request, InferDone done) {
  try {
    trace(*request, done);
    if (!request->then_rank.empty()) return infer_ranked(*request, done);
    // A version that was closed after we found it has a successor, unless it was unloaded.
    while (!find(request->model, request->version)->infer(request, done)) {
      const std::lock_guard lock(mutex_);
      if (draining_) throw Error(ErrorCode::kUnavailable, "the server is shutting down");
    }
  } catch (...) {
    done(caught_error());
  }
}

// Models are closed only when no such request is between the two that work for it.
void ModelServer::infer_ranked(const InferRequest& request, InferDone done) {
  std::shared_ptr<WorkCount::Token> token;
  {
    const std::lock_guard lock(mutex_);
    if (draining_) throw Error(ErrorCode::kUnavailable, "the server is shutting down");
    token = std::make_shared<WorkCount::Token>(ranked_);
  }
  const auto ranked = std::make_shared<RankedSearch>(
      request, [this](const std::string& model) { return find(model, ""); },
      options_.requests.memory,
      [token, done = std::move(done)](InferResult result) { done(std::move(result)); });
  for (;;) {
    const std::shared_ptr<ModelVersion> index = find(request.model, request.version);
    std::unique_ptr<InferRequest> search = ranked->search_with(*index);
    InferDone found = [ranked](InferResult result) { ranked->rank(std::move(result)); };
    if (index->infer(search, found)) return;
  }
}

ItemsChanged ModelServer::change_items(const InferRequest& request, ItemChange change) {
  if (!options_.allow_item_changes)
    throw Error(ErrorCode::kUnavailable,
                "changing items is not allowed; start the server with --allow-item-changes");
  return find(request.model, request.version)->change_items(request, change);
}

std::string ModelServer::extra_metrics() const {
  std::map<std::string, Model> models;
  {
    const std::lock_guard lock(mutex_);
    models = models_;
  }
  std::string text;
  for (const auto& [name, model] : models) {
    for (const auto& [number, version] : model.versions)
      text += version->servable().metrics(cat("model=\"", name, "\",version=\"", number, "\""));
  }
  if (options_.metrics) text += options_.metrics();
  return text;
}

}  // namespace emblem
