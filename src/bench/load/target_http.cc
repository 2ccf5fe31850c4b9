#include <nlohmann/json.hpp>

#include "bench/load/target.h"
#include "core/system/tcp_connect.h"
#include "ps/remote/http_exchange.h"

namespace emblem {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostAnswer = size_t{4} << 30;  // bytes

struct HttpAccess {
  HostAndPort at;
  std::string token;
  std::chrono::nanoseconds timeout{0};
};

std::string percent_encoded(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~') {
      out += c;
    } else {
      static constexpr char kDigits[] = "0123456789ABCDEF";
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

// A complete HTTP request. `json_bytes` 0: the body is only JSON.
std::string request_text(const HttpAccess& access, const char* method, const std::string& path,
                         const std::string& body, size_t json_bytes) {
  std::string text = cat(method, " ", path, " HTTP/1.1\r\nHost: ", access.at.host, ":",
                         access.at.port, "\r\nContent-Length: ", body.size(), "\r\n");
  if (json_bytes > 0)
    text += cat("Content-Type: application/octet-stream\r\nInference-Header-Content-Length: ",
                json_bytes, "\r\n");
  else if (!body.empty())
    text += "Content-Type: application/json\r\n";
  if (!access.token.empty()) text += "Authorization: Bearer " + access.token + "\r\n";
  return text + "\r\n" + body;
}

using RequestText = std::shared_ptr<const std::string>;

// A keep-alive connection.
class HttpClient {
 public:
  explicit HttpClient(HttpAccess access) : access_(std::move(access)) {}

  // Returns the kind of error, or nullopt; then response() is valid.
  std::optional<std::string> exchange(const RequestText& request) {
    // The server may have closed an idle connection: retry once.
    const bool is_fresh = !connection_.is_open();
    std::optional<std::string> problem = try_exchange(request);
    if (problem && !is_fresh && *problem == kClosed) problem = try_exchange(request);
    return problem;
  }
  const HttpExchange& response() const { return *exchange_; }
  const std::string& problem_text() const { return problem_text_; }

 private:
  static constexpr const char* kClosed = "connection closed";

  std::optional<std::string> try_exchange(const RequestText& request) {
    if (!connection_.is_open() && !connect()) return "no connection";
    exchange_.emplace(std::move(connection_), request, kMostAnswer);
    HttpExchange* const only[] = {&*exchange_};
    run_exchanges(only, std::chrono::steady_clock::now() + access_.timeout);
    if (!exchange_->has_answer()) {
      problem_text_ = exchange_->problem();
      return exchange_->has_timed_out() ? "timeout" : kClosed;
    }
    connection_ = exchange_->take_connection();
    return std::nullopt;
  }

  bool connect() {
    try {
      const Deadline deadline = std::chrono::steady_clock::now() + access_.timeout;
      connection_ = {connect_to(access_.at.host, std::stoi(access_.at.port), resolver_, deadline),
                     nullptr, access_.at.host};
      return true;
    } catch (const Error& error) {
      problem_text_ = error.what();
      return false;
    }
  }

  const HttpAccess access_;
  HostResolver resolver_;
  ServerConnection connection_;
  std::optional<HttpExchange> exchange_;
  std::string problem_text_;
};

// ---- inference ----

Json part_json(const RegionPart& part) {
  return {{"shared_memory_region", part.region},
          {"shared_memory_offset", part.offset},
          {"shared_memory_byte_size", part.bytes}};
}

std::string infer_text(const HttpAccess& access, const std::string& path,
                       const LoadRequest& request, const std::vector<LoadOutput>& outputs) {
  Json json = {{"inputs", Json::array()}};
  std::string binary;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const LoadInput& input = request.inputs[i];
    Json tensor = {{"name", input.name}, {"datatype", name_of(input.type)}, {"shape", input.shape}};
    if (!request.input_parts.empty()) {
      tensor["parameters"] = part_json(request.input_parts[i]);
    } else {
      tensor["parameters"] = {{"binary_data_size", input.data.size()}};
      binary.append(reinterpret_cast<const char*>(input.data.data()), input.data.size());
    }
    json["inputs"].push_back(std::move(tensor));
  }
  if (outputs.empty()) json["parameters"] = {{"binary_data_output", true}};
  for (const LoadOutput& output : outputs)
    json["outputs"].push_back({{"name", output.name}, {"parameters", part_json(output.part)}});
  const std::string head = json.dump();
  return request_text(access, "POST", path + "/infer", head + binary, head.size());
}

class HttpConnection final : public LoadConnection {
 public:
  HttpConnection(const HttpAccess& access, std::vector<RequestText> requests)
      : client_(access), requests_(std::move(requests)) {}

  std::optional<std::string> send(size_t request) override {
    if (const auto problem = client_.exchange(requests_.at(request))) {
      failure_ = client_.problem_text();
      return problem;
    }
    const int status = client_.response().status();
    if (status == 200) return std::nullopt;
    failure_ = client_.response().body();
    return cat("HTTP ", status);
  }

  LoadAnswer answer() const override {
    const std::string_view body = client_.response().body();
    const std::string header(client_.response().header("Inference-Header-Content-Length"));
    const size_t json_bytes =
        header.empty() ? body.size() : std::strtoull(header.c_str(), nullptr, 10);
    EMBLEM_REQUIRE(json_bytes <= body.size(), "the answer says that its JSON has ", json_bytes,
                   " of ", body.size(), " bytes");
    try {
      return parse(Json::parse(body.begin(), body.begin() + static_cast<ptrdiff_t>(json_bytes)),
                   body.substr(json_bytes));
    } catch (const Json::exception& error) {
      throw Error(ErrorCode::kInvalidArgument,
                  cat("the JSON of the answer is invalid: ", error.what()));
    }
  }

  std::string_view raw_answer() const override { return client_.response().body(); }
  const std::string& failure_text() const override { return failure_; }

 private:
  static LoadAnswer parse(const Json& json, std::string_view binary) {
    LoadAnswer answer;
    for (const Json& output : json.at("outputs")) {
      OutputTensor tensor;
      tensor.name = output.at("name").get<std::string>();
      const std::string datatype = output.at("datatype").get<std::string>();
      const std::optional<DataType> type = data_type_from_name(datatype);
      EMBLEM_REQUIRE(type, "output ", tensor.name, " has the unknown datatype ", datatype);
      tensor.type = *type;
      tensor.shape = output.at("shape").get<std::vector<int64_t>>();
      EMBLEM_REQUIRE(!output.contains("data"), "output ", tensor.name,
                     " is not binary; the server lacks the binary_tensor_data extension");
      if (output.contains("parameters") && output["parameters"].contains("binary_data_size")) {
        const size_t bytes = output["parameters"]["binary_data_size"].get<size_t>();
        EMBLEM_REQUIRE(bytes <= binary.size(), "output ", tensor.name, " is cut off");
        const auto* from = reinterpret_cast<const std::byte*>(binary.data());
        tensor.data.assign(from, from + bytes);
        binary.remove_prefix(bytes);
      }
      answer.outputs.push_back(std::move(tensor));
    }
    EMBLEM_REQUIRE(binary.empty(), "the answer has ", binary.size(), " bytes too many");
    return answer;
  }

  HttpClient client_;
  const std::vector<RequestText> requests_;
  std::string failure_;
};

// ---- metadata, statistics, shared memory ----

std::vector<TensorMetadata> read_tensors(const Json& json) {
  std::vector<TensorMetadata> tensors;
  for (const Json& tensor : json) {
    const std::string datatype = tensor.at("datatype").get<std::string>();
    const std::optional<DataType> type = data_type_from_name(datatype);
    EMBLEM_REQUIRE(type, "the metadata has the unknown datatype ", datatype);
    tensors.push_back({tensor.at("name").get<std::string>(), *type,
                       tensor.at("shape").get<std::vector<int64_t>>()});
  }
  return tensors;
}

ModelMetadata metadata_from(const Json& json) {
  return {json.at("name").get<std::string>(), json.value("versions", std::vector<std::string>()),
          json.value("platform", ""), read_tensors(json.at("inputs")),
          read_tensors(json.at("outputs"))};
}

ServerCounts counts_from(const Json& json) {
  ServerCounts sum;
  for (const Json& version : json.at("model_stats")) {
    const Json& times = version.at("inference_stats");
    const auto add = [&](const char* name, DurationCount& to) {
      to.count += times.at(name).at("count").get<uint64_t>();
      to.ns += times.at(name).at("ns").get<uint64_t>();
    };
    sum.rows += version.at("inference_count").get<uint64_t>();
    sum.executions += version.at("execution_count").get<uint64_t>();
    add("success", sum.success);
    add("queue", sum.queue);
    add("compute_input", sum.compute_input);
    add("compute_infer", sum.compute_infer);
    add("compute_output", sum.compute_output);
  }
  return sum;
}

class HttpTarget final : public LoadTarget {
 public:
  explicit HttpTarget(const LoadTargetOptions& options)
      : access_{parse_url(options.url, "8000"), options.token,
                std::chrono::nanoseconds(static_cast<int64_t>(options.timeout_seconds * 1e9))},
        path_("/v2/models/" + percent_encoded(options.model) +
              (options.version.empty() ? "" : "/versions/" + percent_encoded(options.version))),
        client_(access_) {}

  ModelMetadata metadata() override { return parsed(metadata_from, call("GET", path_, "")); }

  std::optional<ServerCounts> statistics() override {
    const HttpExchange& response = exchange("GET", path_ + "/stats", "");
    if (response.status() == 404 || response.status() == 501) return std::nullopt;
    require_ok(response, path_ + "/stats");
    return parsed(counts_from, response.body());
  }

  void register_region(const SystemRegion& region) override {
    const Json body = {{"key", region.key}, {"offset", region.offset}, {"byte_size", region.bytes}};
    call("POST", cat("/v2/systemsharedmemory/region/", percent_encoded(region.name), "/register"),
         body.dump());
  }

  void unregister_region(const std::string& name) override {
    call("POST", cat("/v2/systemsharedmemory/region/", percent_encoded(name), "/unregister"), "");
  }

  std::unique_ptr<LoadConnection> connect(const std::vector<LoadRequest>& requests,
                                          const std::vector<LoadOutput>& outputs) override {
    std::vector<RequestText> texts;
    for (const LoadRequest& request : requests)
      texts.push_back(
          std::make_shared<const std::string>(infer_text(access_, path_, request, outputs)));
    return std::make_unique<HttpConnection>(access_, std::move(texts));
  }

 private:
  const HttpExchange& exchange(const char* method, const std::string& path,
                               const std::string& body) {
    if (const auto problem = client_.exchange(
            std::make_shared<const std::string>(request_text(access_, method, path, body, 0))))
      throw Error(ErrorCode::kUnavailable,
                  cat("the HTTP server at ", access_.at.host, ":", access_.at.port, ": ", *problem,
                      " (", client_.problem_text(), ")"));
    return client_.response();
  }

  void require_ok(const HttpExchange& response, const std::string& path) const {
    EMBLEM_REQUIRE(response.status() == 200, "the HTTP server at ", access_.at.host, ":",
                   access_.at.port, " answered ", path, " with status ", response.status(), ": ",
                   response.body());
  }

  std::string call(const char* method, const std::string& path, const std::string& body) {
    const HttpExchange& response = exchange(method, path, body);
    require_ok(response, path);
    return std::string(response.body());
  }

  template <class T>
  T parsed(T (*read)(const Json&), std::string_view text) const {
    try {
      return read(Json::parse(text));
    } catch (const Json::exception& error) {
      throw Error(ErrorCode::kInvalidArgument,
                  cat("the HTTP server at ", access_.at.host, ":", access_.at.port,
                      " sent an invalid answer: ", error.what()));
    }
  }

  const HttpAccess access_;
  const std::string path_;
  HttpClient client_;
};

}  // namespace

std::unique_ptr<LoadTarget> open_http_target(const LoadTargetOptions& options) {
  return std::make_unique<HttpTarget>(options);
}

}  // namespace emblem
