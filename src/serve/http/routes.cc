#include "serve/http/routes.h"

#include <algorithm>

#include "core/system/caught_error.h"
#include "core/text/text.h"
#include "serve/http/api/infer.h"
#include "serve/http/api/metadata_json.h"
#include "serve/http/message/request_object.h"
#include "serve/http/message/target.h"
#include "serve/http/status/health.h"
#include "serve/http/status/metrics_text.h"
#include "serve/http/status/status_history.h"
#include "serve/http/status/status_page.h"
#include "serve/protocol/encoding/base64.h"
#include "serve/protocol/model_config.pb.h"
#include "serve/protocol/request_names.h"
#include "serve/protocol/slow_calls.h"
#include "serve/protocol/status.h"

namespace emblem {
namespace {

HttpResponse empty_response(int status) {
  HttpResponse response;
  response.status = status;
  return response;
}

HttpResponse text_response(const char* content_type, std::string text) {
  HttpResponse response;
  response.content_type = content_type;
  response.body = std::move(text);
  return response;
}

}  // namespace

struct HttpRoutes::State {
  // A request whose path has matched, and the names that stood for the '*' in the route's.
  struct Call {
    const HttpRequest& request;
    std::vector<std::string> names;

    std::string name(size_t at) const { return at < names.size() ? names[at] : std::string(); }
  };
  using Answer = HttpResponse (State::*)(const Call&);
  struct Route {
    const char* method;
    const char* path;
    Api api;
    Answer answer;  // null: inference, or a change of items
    bool is_slow = false;
    bool has_payload = false;              // requests bring files or keys; inference does, too
    std::optional<ItemChange> items = {};  // what is done with the items of the request
  };

  static std::span<const Route> routes() {
    static const Route kRoutes[] = {
        {"POST", "v2/models/*/infer", Api::kInference, nullptr},
        {"POST", "v2/models/*/versions/*/infer", Api::kInference, nullptr},
        {"POST", "v2/models/*/items", Api::kModelRepository, nullptr, false, true,
         ItemChange::kPut},
        {"POST", "v2/models/*/versions/*/items", Api::kModelRepository, nullptr, false, true,
         ItemChange::kPut},
        {"POST", "v2/models/*/items/remove", Api::kModelRepository, nullptr, false, true,
         ItemChange::kRemove},
        {"POST", "v2/models/*/versions/*/items/remove", Api::kModelRepository, nullptr, false, true,
         ItemChange::kRemove},
        {"GET", "v2/models/stats", Api::kStatistics, &State::statistics},
        {"GET", "v2/models/*/stats", Api::kStatistics, &State::statistics},
        {"GET", "v2/models/*/versions/*/stats", Api::kStatistics, &State::statistics},
        {"GET", "v2", Api::kMetadata, &State::server_metadata},
        {"GET", "v2/health/live", Api::kHealth, &State::live},
        {"GET", "v2/health/ready", Api::kHealth, &State::ready},
        {"GET", "v2/models/*", Api::kMetadata, &State::model_metadata},
        {"GET", "v2/models/*/versions/*", Api::kMetadata, &State::model_metadata},
        {"GET", "v2/models/*/ready", Api::kHealth, &State::model_ready},
        {"GET", "v2/models/*/versions/*/ready", Api::kHealth, &State::model_ready},
        {"GET", "v2/models/*/config", Api::kModelConfig, &State::model_config},
        {"GET", "v2/models/*/versions/*/config", Api::kModelConfig, &State::model_config},
        {"POST", "v2/repository/index", Api::kModelRepository, &State::repository_index},
        {"POST", "v2/repository/models/*/load", Api::kModelRepository, &State::load, true,
         /*has_payload=*/true},
        {"POST", "v2/repository/models/*/unload", Api::kModelRepository, &State::unload, true},
        {"POST", "v2/repository/*/index", Api::kModelRepository, &State::named_repository},
        {"POST", "v2/repository/*/models/*/load", Api::kModelRepository, &State::named_repository},
        {"POST", "v2/repository/*/models/*/unload", Api::kModelRepository,
         &State::named_repository},
        {"GET", "v2/systemsharedmemory/status", Api::kSharedMemory, &State::region_status},
        {"GET", "v2/systemsharedmemory/region/*/status", Api::kSharedMemory, &State::region_status},
        {"POST", "v2/systemsharedmemory/region/*/register", Api::kSharedMemory,
         &State::register_region},
        {"POST", "v2/systemsharedmemory/region/*/unregister", Api::kSharedMemory,
         &State::unregister_region},
        {"POST", "v2/systemsharedmemory/unregister", Api::kSharedMemory, &State::unregister_region},
        {"GET", "v2/cudasharedmemory/status", Api::kSharedMemory, &State::cuda_status},
        {"GET", "v2/cudasharedmemory/region/*/status", Api::kSharedMemory, &State::cuda_status},
        {"POST", "v2/cudasharedmemory/region/*/register", Api::kSharedMemory,
         &State::cuda_register},
        {"POST", "v2/cudasharedmemory/region/*/unregister", Api::kSharedMemory,
         &State::cuda_unregister},
        {"POST", "v2/cudasharedmemory/unregister", Api::kSharedMemory, &State::cuda_unregister},
        {"GET", "v2/trace/setting", Api::kTrace, &State::trace_settings},
        {"POST", "v2/trace/setting", Api::kTrace, &State::trace_settings},
        {"GET", "v2/models/*/trace/setting", Api::kTrace, &State::trace_settings},
        {"POST", "v2/models/*/trace/setting", Api::kTrace, &State::trace_settings},
        {"GET", "v2/logging", Api::kLogging, &State::log_settings},
        {"POST", "v2/logging", Api::kLogging, &State::log_settings},
        {"POST", "v2/tables/rows", Api::kInference, &State::rows, false, /*has_payload=*/true},
        {"POST", "v2/tables/status", Api::kInference, &State::rows_status, false,
         /*has_payload=*/true},
        {"GET", "metrics", Api::kMetrics, &State::metrics_answer},
        {"GET", "status.json", Api::kMetrics, &State::status},
        {"GET", "history.json", Api::kMetrics, &State::status_history},
        {"GET", "", Api::kHealth, &State::page},
    };
    return kRoutes;
  }

  State(InferenceService& serving, SharedMemoryRegions& shared, const Access& rules)
      : service(serving),
        regions(shared),
        access(rules),
        metrics(serving),
        status_source(serving),
        history(serving) {}

  // ---- finding the route ----

  static bool matches(std::string_view path, const std::vector<std::string>& parts,
                      std::vector<std::string>& names) {
    names.clear();
    for (const std::string& part : parts) {
      if (path.empty()) return false;
      const size_t slash = path.find('/');
      const std::string_view wanted = path.substr(0, slash);
      if (wanted == "*")
        names.push_back(part);
      else if (wanted != part)
        return false;
      path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
    }
    return path.empty();
  }

  // Paths that are not there need what metadata needs: they tell what the server has.
  void authorize(std::string_view target, const Caller& caller) const {
    if (!access.needs_credentials()) return;
    const std::vector<std::string> parts = split_target(target);
    std::vector<std::string> names;
    for (const Route& route : routes()) {
      if (!matches(route.path, parts, names)) continue;
      if (route.answer != &State::page) access.require(route.api, caller);
      return;
    }
    access.require(Api::kMetadata, caller);
  }

  bool takes_payload(std::string_view target) const {
    const std::vector<std::string> parts = split_target(target);
    std::vector<std::string> names;
    return std::any_of(routes().begin(), routes().end(), [&](const Route& route) {
      return (route.answer == nullptr || route.has_payload) && matches(route.path, parts, names);
    });
  }

  void handle(HttpRequest request, HttpReply reply) {
    const std::vector<std::string> parts = split_target(request.target);
    std::vector<std::string> names;
    std::string allowed;
    for (const Route& route : routes()) {
      if (!matches(route.path, parts, names)) continue;
      if (request.method == route.method)
        return follow(route, std::move(request), std::move(names), std::move(reply));
      if (!allowed.empty()) allowed += ", ";
      allowed += route.method;
    }
    if (allowed.empty())
      return reply(error_response(404, cat("there is nothing at ", request.target)));
    HttpResponse response =
        error_response(405, cat(request.target, " answers ", allowed, ", not ", request.method));
    response.headers.emplace_back("Allow", std::move(allowed));
    reply(std::move(response));
  }

  // Of probes and scrapers, whose answer is the same in any case, a query may be anything.
  static void refuse_query(const Route& route, const std::string& target) {
    const std::string_view name = first_query_name(target);
    if (name.empty() || route.api == Api::kHealth || route.api == Api::kMetrics) return;
    throw Error(ErrorCode::kInvalidArgument,
                cat("parameter \"", printable(name.substr(0, kMostNameBytes)),
                    "\" of the query is unknown: paths here have no query; parameters of a request "
                    "are in \"parameters\" of its JSON"));
  }

  void follow(const Route& route, HttpRequest request, std::vector<std::string> names,
              HttpReply reply) {
    refuse_query(route, request.target);
    if (route.items) return change_items(request, names, *route.items, std::move(reply));
    if (!route.answer) return infer(request, names, std::move(reply));
    if (route.api == Api::kSharedMemory) access.require_shared_memory(request.is_local);
    if (!route.is_slow) return reply((this->*route.answer)({request, std::move(names)}));
    const auto call = [this, &route, request = std::move(request), names = std::move(names),
                       reply] {
      HttpResponse response;
      try {
        response = (this->*route.answer)({request, names});
      } catch (...) {
        response = error_response(caught_error());
      }
      reply(std::move(response));
    };
    if (!slow_calls.add(call))
      reply(error_response(503, "too many models wait to be loaded or unloaded"));
  }

  // For a model that cannot be used that is the error, whatever the body is.
  InferCall read_request(const HttpRequest& request, const std::string& model,
                         const std::string& version) const {
    try {
      return read_infer_request(request, model, version, regions);
    } catch (const Error&) {
      service.is_model_ready(model, version);
      throw;
    }
  }

  void infer(HttpRequest& request, const std::vector<std::string>& names, HttpReply reply) {
    request.may_use_regions = access.may_use_shared_memory(request.is_local);
    if (names.size() > 1) check_version(names[1]);
    InferCall call = read_request(request, names[0], names.size() > 1 ? names[1] : std::string());
    service.infer(std::move(call.request), [forms = std::move(call.forms),
                                            reply = std::move(reply)](InferResult result) mutable {
      HttpResponse response;
      try {
        if (const Error* error = std::get_if<Error>(&result)) {
          response = error_response(*error);
        } else {
          response.is_compressible = true;
          response.deferred_json_bytes = json_bytes_of(std::get<InferResponse>(result), forms);
          response.deferred = [response = std::get<InferResponse>(std::move(result)),
                               forms = std::move(forms)]() mutable {
            try {
              return write_infer_response(std::move(response), forms);
            } catch (...) {
              return error_response(caught_error());
            }
          };
        }
      } catch (...) {  // no memory for the text of a response
        response = empty_response(503);
      }
      reply(std::move(response));
    });
  }

  // Changes are made in the order in which they come.
  void change_items(HttpRequest& request, const std::vector<std::string>& names, ItemChange change,
                    HttpReply reply) {
    request.may_use_regions = access.may_use_shared_memory(request.is_local);
    if (names.size() > 1) check_version(names[1]);
    const std::shared_ptr<const InferRequest> items =
        read_request(request, names[0], names.size() > 1 ? names[1] : std::string()).request;
    const auto call = [this, items, change, reply] {
      HttpResponse response;
      try {
        response =
            json_response(items_changed_json(items->model, service.change_items(*items, change)));
      } catch (...) {
        response = error_response(caught_error());
      }
      reply(std::move(response));
    };
    if (!item_calls.add(call))
      reply(error_response(
          503, "too many changes of items wait; send fewer at a time, with more items"));
  }

  static void check_version(const std::string& version) {
    const bool is_number =
        std::all_of(version.begin(), version.end(), [](char c) { return c >= '0' && c <= '9'; });
    EMBLEM_REQUIRE(is_number, "version ", version, " of the path is not a number");
  }
  static std::string version_of(const Call& call) {
    check_version(call.name(1));
    return call.name(1);
  }

  // ---- the server and its models ----

  HttpResponse server_metadata(const Call&) {
    return json_response(server_metadata_json(access.allows_shared_memory()));
  }
  HttpResponse live(const Call&) { return live_response(); }
  HttpResponse ready(const Call&) { return ready_response(service.is_ready()); }
  HttpResponse model_metadata(const Call& call) {
    return json_response(model_metadata_json(service.metadata(call.name(0), version_of(call))));
  }
  // Open to all callers: the reason, which may have paths and names of other models, is not sent.
  HttpResponse model_ready(const Call& call) {
    const std::string version = version_of(call);
    int status = 400;
    try {
      if (service.is_model_ready(call.name(0), version)) return model_ready_response(call.name(0));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound && error.code() != ErrorCode::kUnavailable) throw;
      status = http_status(error.code());
    }
    return error_response(status, cat("model ", call.name(0), " is not ready"));
  }
  HttpResponse model_config(const Call& call) {
    return json_response(model_config_json(service.config(call.name(0), version_of(call))));
  }
  HttpResponse statistics(const Call& call) {
    return json_response(statistics_json(service.statistics(call.name(0), version_of(call))));
  }

  // ---- the model repository ----

  HttpResponse repository_index(const Call& call) {
    bool only_ready = false;
    read_object(call.request, [&](JsonReader& json, std::string_view key) {
      if (key == "ready")
        only_ready = json.boolean();
      else
        refuse_unknown("member", key, "the request", {"ready"});
    });
    return json_response(repository_index_json(service.index(), only_ready));
  }
  HttpResponse load(const Call& call) {
    // Memory for texts as they grow, for what base64 stands for, and for a copy of it.
    constexpr size_t kTextsPerByte = 5;
    MemoryBudget::Lease lease = lease_of(call.request.memory_budget, call.request.body.size());
    lease.grow(kTextsPerByte * call.request.body.size());
    std::map<std::string, std::string> parameters;
    read_object(call.request, [&](JsonReader& json, std::string_view key) {
      if (key != "parameters") refuse_unknown("member", key, "the request", {"parameters"});
      json.object([&](std::string_view name) {
        const bool is_text = json.kind() == JsonReader::Kind::kString;
        std::string value =
            is_text ? json.string(call.request.body.size()) : std::string(json.raw());
        if (name.starts_with("file:")) value = decode_base64(value);
        parameters[std::string(name)] = std::move(value);
      });
    });
    service.load(call.name(0), parameters);
    return empty_response(200);
  }
  HttpResponse unload(const Call& call) {
    // Models have no dependents, so "unload_dependents" changes nothing.
    read_object(call.request, [](JsonReader& json, std::string_view key) {
      if (key != "parameters") refuse_unknown("member", key, "the request", {"parameters"});
      json.object([&](std::string_view name) {
        if (name != "unload_dependents")
          refuse_unknown("parameter", name, "the request", {"unload_dependents"});
        json.boolean();
      });
    });
    service.unload(call.name(0));
    return empty_response(200);
  }
  HttpResponse named_repository(const Call& call) {
    throw Error(ErrorCode::kUnsupported, cat("there is one repository, without a name; omit \"",
                                             call.name(0), "\" from the path"));
  }

  // ---- shared memory ----

  HttpResponse region_status(const Call& call) {
    return json_response(regions_json(regions.system_status(call.name(0))));
  }
  HttpResponse register_region(const Call& call) {
    SystemRegion region;
    region.name = call.name(0);
    bool has_key = false, has_bytes = false;
    read_object(call.request, [&](JsonReader& json, std::string_view key) {
      if (key == "key") {
        region.key = json.string();
        has_key = true;
      } else if (key == "offset") {
        region.offset = json.uint64();
      } else if (key == "byte_size") {
        region.bytes = json.uint64();
        has_bytes = true;
      } else {
        refuse_unknown("member", key, "the request", {"key", "offset", "byte_size"});
      }
    });
    EMBLEM_REQUIRE(has_key && has_bytes, "a region needs a \"key\" and a \"byte_size\"");
    regions.register_system(region);
    return empty_response(200);
  }
  HttpResponse unregister_region(const Call& call) {
    regions.unregister_system(call.name(0));
    return empty_response(200);
  }
  HttpResponse cuda_status(const Call& call) {
    return json_response(regions_json(regions.cuda_status(call.name(0))));
  }
  HttpResponse cuda_register(const Call& call) {
    CudaSharedRegion region;
    region.name = call.name(0);
    read_object(call.request, [&](JsonReader& json, std::string_view key) {
      if (key == "raw_handle") {
        json.object([&](std::string_view part) {
          if (part == "b64")
            region.handle = decode_base64(json.string());
          else
            refuse_unknown("member", part, "raw_handle", {"b64"});
        });
      } else if (key == "device_id") {
        region.device = json.int64();
      } else if (key == "byte_size") {
        region.bytes = json.uint64();
      } else {
        refuse_unknown("member", key, "the request", {"raw_handle", "device_id", "byte_size"});
      }
    });
    regions.register_cuda(region);
    return empty_response(200);
  }
  HttpResponse cuda_unregister(const Call& call) {
    regions.unregister_cuda(call.name(0));
    return empty_response(200);
  }

  // ---- rows of tables, for front ends ----

  RowService& row_service() const {
    if (RowService* rows = service.rows()) return *rows;
    throw Error(ErrorCode::kUnsupported,
                "this server serves no rows to front ends: it was started without --table-parts");
  }
  // Many keys are looked up by a worker.
  HttpResponse rows(const Call& call) {
    HttpResponse response;
    response.deferred = [&service = row_service(), body = call.request.body,
                         memory = call.request.memory, budget = call.request.memory_budget] {
      try {
        HttpResponse answer;
        answer.content_type = "application/octet-stream";
        answer.memory = std::make_shared<MemoryBudget::Lease>(lease_of(budget, body.size()));
        answer.tensors.push_back(service.rows(body, *answer.memory));
        return answer;
      } catch (...) {
        return error_response(caught_error());
      }
    };
    response.deferred_json_bytes = call.request.body.size();
    return response;
  }
  HttpResponse rows_status(const Call& call) {
    return text_response("application/octet-stream", row_service().status(call.request.body));
  }

  // ---- settings, metrics, the status page ----

  HttpResponse trace_settings(const Call& call) {
    const std::string model = call.name(0);
    if (!model.empty()) service.metadata(model, "");
    if (call.request.method == "POST") {
      service.tracing().change(model, read_trace_changes(call.request));
    }
    return json_response(trace_settings_json(service.tracing().settings(model)));
  }
  HttpResponse log_settings(const Call& call) {
    if (call.request.method == "POST") change_log_settings(read_log_change(call.request));
    return json_response(log_settings_json(emblem::log_settings()));
  }
  HttpResponse metrics_answer(const Call&) {
    return text_response(MetricsText::kContentType, metrics.text());
  }
  HttpResponse status(const Call&) { return json_response(status_source.json()); }
  HttpResponse status_history(const Call&) { return json_response(history.json()); }
  HttpResponse page(const Call&) {
    HttpResponse response = text_response("text/html; charset=utf-8", std::string(status_page()));
    response.headers.emplace_back("Content-Security-Policy",
                                  "default-src 'none'; style-src 'unsafe-inline'; "
                                  "script-src 'unsafe-inline'; connect-src 'self'; img-src data:");
    response.headers.emplace_back("X-Content-Type-Options", "nosniff");
    return response;
  }

  InferenceService& service;
  SharedMemoryRegions& regions;
  const Access& access;
  MetricsText metrics;
  StatusSource status_source;
  StatusHistory history;
  SlowCalls slow_calls, item_calls;
};

HttpRoutes::HttpRoutes(InferenceService& service, SharedMemoryRegions& regions,
                       const Access& access)
    : state_(std::make_unique<State>(service, regions, access)) {}
HttpRoutes::~HttpRoutes() = default;

bool HttpRoutes::takes_payload(std::string_view target) const noexcept {
  try {
    return state_->takes_payload(target);
  } catch (...) {  // no memory to find out
    return false;
  }
}

std::optional<HttpResponse> HttpRoutes::authorize(std::string_view target,
                                                  const Caller& caller) const noexcept {
  try {
    state_->authorize(target, caller);
    return std::nullopt;
  } catch (...) {
    return error_response(caught_error());
  }
}

void HttpRoutes::handle(HttpRequest request, HttpReply reply) {
  try {
    state_->handle(std::move(request), reply);
  } catch (...) {
    reply(error_response(caught_error()));
  }
}

}  // namespace emblem
