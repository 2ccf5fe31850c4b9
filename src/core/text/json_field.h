// core/text/json_field.h - a value of a JSON file with its place, so that what is wrong is named:
// "results.json: metrics.auc is "high"; expected a number". For .cc files: includes nlohmann/json.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {

// All functions throw kInvalidArgument where the value is something else.
class JsonField {
 public:
  using Json = nlohmann::ordered_json;
  // `json` outlives this. `advice` is added to messages, as "; make the file again".
  JsonField(const Json& json, std::string place, const char* advice = "")
      : json_(&json), place_(std::move(place)), advice_(advice) {}

  const Json& json() const { return *json_; }
  const std::string& place() const { return place_; }
  [[noreturn]] void refuse(std::string_view expected) const {
    std::string found = json_->dump(-1, ' ', false, Json::error_handler_t::replace);
    if (found.size() > 60) found = found.substr(0, 57) + "...";
    throw Error(ErrorCode::kInvalidArgument,
                cat(place_, " is ", found, "; expected ", expected, advice_));
  }

  std::string text() const {
    if (!json_->is_string()) refuse("text");
    return json_->get<std::string>();
  }
  bool flag() const {
    if (!json_->is_boolean()) refuse("true or false");
    return json_->get<bool>();
  }
  double number() const {
    if (!json_->is_number()) refuse("a number");
    return json_->get<double>();
  }
  double number(double least) const {
    if (!json_->is_number() || number() < least) refuse(cat("a number of at least ", least));
    return number();
  }
  int64_t integer() const {  // also 5.0
    if (!is_integer()) refuse("a whole number");
    return json_->get<int64_t>();
  }
  int64_t integer(int64_t least) const {
    if (!is_integer() || integer() < least) refuse(cat("a whole number of at least ", least));
    return integer();
  }

  // ---- lists ----
  size_t size() const {
    if (!json_->is_array()) refuse("a list");
    return json_->size();
  }
  JsonField operator[](size_t index) const {
    return {(*json_)[index], cat(place_, "[", index, "]"), advice_};
  }

  // ---- objects ----
  void require_object() const {
    if (!json_->is_object()) refuse("an object");
  }
  bool has(const char* name) const {
    require_object();
    return json_->contains(name);
  }
  JsonField operator[](const char* name) const {
    if (!has(name))
      throw Error(ErrorCode::kInvalidArgument, cat(place_, " has no \"", name, "\"", advice_));
    return {json_->at(name), cat(place_, ".", name), advice_};
  }
  std::vector<std::pair<std::string, JsonField>> members() const {
    require_object();
    std::vector<std::pair<std::string, JsonField>> members;
    for (const auto& [name, value] : json_->items())
      members.emplace_back(name, JsonField(value, cat(place_, ".", name), advice_));
    return members;
  }
  void refuse_unknown(const std::vector<std::string>& known) const {
    for (const auto& [name, field] : members()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const auto near = nearest_name(name, known);
      throw Error(ErrorCode::kInvalidArgument,
                  cat(place_, " has an unknown field \"", name, "\"",
                      near ? cat("; did you mean \"", *near, "\"?") : std::string(), advice_));
    }
  }

 private:
  bool is_integer() const {
    if (json_->is_number_unsigned()) return json_->get<uint64_t>() <= INT64_MAX;
    return json_->is_number_integer() ||
           (json_->is_number_float() && number() == std::floor(number()) &&
            std::abs(number()) < 9e15);
  }

  const Json* json_;
  std::string place_;
  const char* advice_;
};

}  // namespace emblem
