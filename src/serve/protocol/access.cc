#include "serve/protocol/access.h"

#include <strings.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

#include "core/math/sha256.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Whether an Authorization header has the token. Takes the same time however wrong it is.
bool carries_token(std::string_view authorization, std::string_view token) {
  constexpr std::string_view kScheme = "Bearer ";
  if (authorization.size() < kScheme.size() ||
      strncasecmp(authorization.data(), kScheme.data(), kScheme.size()) != 0)
    return false;
  return equal_in_constant_time(trim(authorization.substr(kScheme.size())), token);
}

// Names in the order of the enumerators.
constexpr const char* kNames[kApiCount] = {
    "health",           "metadata",   "inference", "shared-memory", "model-config",
    "model-repository", "statistics", "trace",     "logging",       "metrics"};

// The prefix by which Triton's gRPC clients name the key.
constexpr const char* kGrpcPrefix = "triton-grpc-protocol-";

size_t index_of(Api api) { return static_cast<size_t>(api); }

Api api_of(std::string_view name, const std::string& text) {
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found != std::end(kNames)) return static_cast<Api>(found - kNames);
  throw Error(ErrorCode::kInvalidArgument, cat("restricted API '", text, "': '", name,
                                               "' is unknown; expected one of ", joined(kNames)));
}

// Whether an inference token is not enough where there is a control token.
bool is_control(Api api) {
  return api == Api::kSharedMemory || api == Api::kModelRepository || api == Api::kTrace ||
         api == Api::kLogging;
}

// No header can have such a value: the server would refuse everyone.
void check_token(const std::string& token, const char* name) {
  const bool has_control = std::any_of(token.begin(), token.end(),
                                       [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  EMBLEM_REQUIRE(!has_control && trim(token) == token, name,
                 " begins or ends with a space or has a line break or another control character, "
                 "which no request can send; remove it");
}

[[noreturn]] void deny(const std::string& message) {
  throw Error(ErrorCode::kPermissionDenied, message);
}

}  // namespace

const char* name_of(Api api) { return kNames[index_of(api)]; }

RestrictedApis parse_restricted_apis(const std::string& text) {
  const size_t end_of_names = text.find_first_of("=:");
  const size_t sign =
      end_of_names == std::string::npos ? end_of_names : text.find('=', end_of_names + 1);
  const bool is_complete = sign != std::string::npos && sign > end_of_names + 1 &&
                           sign + 1 < text.size() && end_of_names > 0;
  EMBLEM_REQUIRE(is_complete, "restricted API '", text,
                 "' is not of the form API,...=KEY=VALUE, e.g. "
                 "model-repository,shared-memory=admin-key=SECRET");
  RestrictedApis result;
  std::string_view names = std::string_view(text).substr(0, end_of_names);
  while (true) {
    const size_t comma = names.find(',');
    result.apis.push_back(api_of(trim(names.substr(0, comma)), text));
    if (comma == std::string_view::npos) break;
    names.remove_prefix(comma + 1);
  }
  result.key = text.substr(end_of_names + 1, sign - end_of_names - 1);
  result.value = text.substr(sign + 1);
  return result;
}

Access::Access(AccessOptions options) : options_(std::move(options)) {
  check_token(options_.inference_token, "the inference token");
  check_token(options_.control_token, "the control token");
  for (const RestrictedApis& one : options_.restricted)
    check_token(one.value, cat("the value of the restricted header ", one.key).c_str());
  EMBLEM_REQUIRE(
      options_.control_token.empty() || options_.control_token != options_.inference_token,
      "the control token is the same as the inference token; choose another or set only "
      "the inference token, which then opens everything");
  for (size_t i = 0; i < options_.restricted.size(); ++i) {
    RestrictedApis& one = options_.restricted[i];
    std::transform(one.key.begin(), one.key.end(), one.key.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const Api api : one.apis) {
      std::optional<size_t>& at = restricted_[index_of(api)];
      EMBLEM_REQUIRE(!at, "API ", name_of(api), " is restricted twice");
      at = i;
    }
  }
}

void Access::require(Api api, const Caller& caller) const {
  require_key(api, caller);
  require_token(api, caller);
  if (api == Api::kSharedMemory) require_shared_memory(caller.is_local);
}

bool Access::has_key(Api api, const Caller& caller) const {
  const std::optional<size_t> at = restricted_[index_of(api)];
  if (!at) return true;
  const RestrictedApis& wanted = options_.restricted[*at];
  for (const std::string& name : {wanted.key, kGrpcPrefix + wanted.key}) {
    if (caller.header && equal_in_constant_time(caller.header(name), wanted.value)) return true;
  }
  return false;
}

void Access::require_key(Api api, const Caller& caller) const {
  if (has_key(api, caller)) return;
  const RestrictedApis& wanted = options_.restricted[*restricted_[index_of(api)]];
  deny(cat("This API is restricted, expecting header '", wanted.key, "'"));
}

bool Access::has_token(Api api, const Caller& caller) const {
  const std::string& inference = options_.inference_token;
  const std::string& control = options_.control_token;
  if (api == Api::kHealth) return true;
  if (inference.empty() && (control.empty() || !is_control(api))) return true;
  if (!control.empty() && carries_token(caller.authorization, control)) return true;
  return !inference.empty() && (control.empty() || !is_control(api)) &&
         carries_token(caller.authorization, inference);
}

void Access::require_token(Api api, const Caller& caller) const {
  if (has_token(api, caller)) return;
  const std::string& inference = options_.inference_token;
  if (!inference.empty() && carries_token(caller.authorization, inference))
    deny(cat("the inference token does not open ", name_of(api),
             "; the request needs the server's control token"));
  throw Error(ErrorCode::kUnauthenticated,
              cat("the request needs the server's ",
                  is_control(api) && !options_.control_token.empty() ? "control " : "",
                  "token: \"Authorization: Bearer TOKEN\""));
}

bool Access::needs_credentials() const {
  return !options_.inference_token.empty() || !options_.control_token.empty() ||
         !options_.restricted.empty();
}

void Access::require_shared_memory(bool is_local) const {
  if (!options_.allow_shared_memory)
    deny("shared memory is off; start the server with --allow-shared-memory");
  if (!may_use_shared_memory(is_local))
    deny(
        "shared memory is only for clients on the server's machine (loopback or Unix socket); "
        "--allow-remote-shared-memory opens it to others");
}

}  // namespace emblem
