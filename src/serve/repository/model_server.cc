#include "serve/repository/model_server.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "core/caught_error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/start_thread.h"
#include "core/text.h"
#include "serve/engine/model_options.h"
#include "serve/engine/pipeline_servable.h"
#include "serve/repository/folder_kind.h"

namespace emblem {
namespace {

int64_t parse_version(const std::string& text) {
  int64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  EMBLEM_REQUIRE(error == std::errc() && end == text.data() + text.size() && version > 0,
                 "version '", text, "' is not valid; expected a number above 0");
  return version;
}

}  // namespace

ModelServer::ModelServer(ModelServerOptions options)
    : options_(std::move(options)),
      repository_(options_.repository),
      tables_(options_.ps_config.empty() ? PsConfig{} : load_ps_config(options_.ps_config)) {
  if (repository_.models().empty()) {
    const std::string text = no_models_text(repository_.path());
    options_.control == ModelServerOptions::Control::kAll ? log_warn(text) : log_info(text);
  }
  const bool all = options_.control != ModelServerOptions::Control::kExplicit;
  for (const std::string& model : all ? repository_.models() : options_.models)
    try_load(model, AtThreadLimit::kThrow);
  for (const auto& [model, folder] : options_.deltas) tables_.watch_deltas(model, folder);
  if (options_.control == ModelServerOptions::Control::kPoll)
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
  for (auto& [name, model] : models) {
    for (auto& [number, version] : model.versions) version->close();
  }
}

void ModelServer::poll() noexcept {
  std::unique_lock lock(mutex_);
  const auto pause = std::chrono::duration<double>(options_.poll_seconds);
  while (!stop_polling_.wait_for(lock, pause, [&] { return draining_; })) {
    std::set<std::string> known;
    try {
      for (const auto& [name, model] : models_) known.insert(name);
      lock.unlock();
      look_for_changes(known);
    } catch (...) {
      log_caught("model repository");
    }
    if (!lock.owns_lock()) lock.lock();
  }
}

void ModelServer::look_for_changes(const std::set<std::string>& known) {
  const std::vector<std::string> there = repository_.models();
  for (const std::string& name : there) try_load(name, AtThreadLimit::kLog);
  for (const std::string& name : known) {
    if (!std::binary_search(there.begin(), there.end(), name)) unload(name);
  }
}

void ModelServer::try_load(const std::string& model, AtThreadLimit limit) {
  try {
    load(model, {});
  } catch (const ThreadLimitError&) {
    if (limit == AtThreadLimit::kThrow) throw;
    log_caught(cat("model ", model, " cannot be served").c_str());
  } catch (...) {
    log_warn(cat("model ", model, " cannot be served: ", caught_error().what()));
  }
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
        default_model_config(model, *describe_pipeline(repository_.folder(model, versions.back())));
  }
  EMBLEM_REQUIRE(config.name().empty() || config.name() == model, file, ": name is '",
                 config.name(), "', but the folder's is '", model, "'");
  config.set_name(model);
  if (options_.on_gpu) move_to_gpu(config, options_.precision);
  return config;
}

ModelServer::Versions ModelServer::load_versions(const std::string& model,
                                                 const inference::ModelConfig& config,
                                                 const Versions& old) {
  const std::string where = repository_.config_file(model);
  check_backend(config, where);
  const std::vector<int64_t> there = repository_.versions(model);
  EMBLEM_REQUIRE(!there.empty(), repository_.folder(model),
                 " has no version (a folder named 1, 2, ...)");
  Versions versions;
  for (const int64_t number : choose_versions(config, there, where)) {
    const std::string folder = repository_.folder(model, number);
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

void ModelServer::load(const std::string& name,
                       const std::map<std::string, std::string>& parameters) {
  for (const auto& [key, value] : parameters) {
    if (key == "config") continue;
    throw Error(ErrorCode::kUnsupported,
                cat("load: parameter '", key, "' is not supported (expected config)"));
  }
  const std::lock_guard one_at_a_time(load_mutex_);
  repository_.versions(name);  // is it there at all?
  Versions old;
  {
    const std::lock_guard lock(mutex_);
    if (draining_) throw Error(ErrorCode::kUnavailable, "the server is shutting down");
    models_[name].loading = true;
    old = models_[name].versions;
  }
  try {
    const auto json = parameters.find("config");
    const inference::ModelConfig config =
        read_config(name, json == parameters.end() ? "" : json->second);
    Versions versions = load_versions(name, config, old);
    const std::lock_guard lock(mutex_);
    models_[name] = {.config = config, .versions = versions};
  } catch (...) {
    const std::lock_guard lock(mutex_);
    models_[name].loading = false;
    models_[name].problem = caught_error().what();
    throw;
  }
  for (auto& [number, version] : old) {
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
  const std::lock_guard one_at_a_time(load_mutex_);
  Versions old;
  {
    const std::lock_guard lock(mutex_);
    find(name);
    old.swap(models_[name].versions);
    models_[name].problem = "unloaded";
  }
  for (auto& [number, version] : old) version->close();
}

const ModelServer::Model& ModelServer::find(const std::string& name) const {
  const auto found = models_.find(name);
  if (found != models_.end()) return found->second;
  std::string known;
  for (const auto& [other, model] : models_) known += (known.empty() ? "" : ", ") + other;
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
  return std::none_of(models_.begin(), models_.end(), [](const auto& entry) {
    return entry.second.versions.empty() && entry.second.problem != "unloaded";
  });
}

bool ModelServer::is_model_ready(const std::string& model, const std::string& version) const {
  find(model, version);
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

std::vector<RepositoryEntry> ModelServer::index() const {
  std::vector<RepositoryEntry> entries;
  std::set<std::string> listed;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, model] : models_) {
      listed.insert(name);
      for (const auto& [number, version] : model.versions)
        entries.push_back({name, std::to_string(number), "READY", ""});
      if (model.versions.empty())
        entries.push_back({name, "", model.loading ? "LOADING" : "UNAVAILABLE", model.problem});
    }
  }
  for (const std::string& name : repository_.models()) {
    if (!listed.contains(name)) entries.push_back({name, "", "UNAVAILABLE", "not loaded"});
  }
  return entries;
}

void ModelServer::infer(std::unique_ptr<InferRequest> request, InferDone done) {
  try {
    // A version that was closed after we found it has a successor, unless it was unloaded.
    while (!find(request->model, request->version)->infer(request, done)) {
      const std::lock_guard lock(mutex_);
      if (draining_) throw Error(ErrorCode::kUnavailable, "the server is shutting down");
    }
  } catch (...) {
    done(caught_error());
  }
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
  return text;
}

}  // namespace emblem
