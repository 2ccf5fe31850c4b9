#include "serve/repository/load_request.h"

#include <string_view>

#include "core/text.h"
#include "emblem/error.h"

namespace emblem {

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

}  // namespace emblem
