#include "ps/config/json_object.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

bool whole(const json& value) {
  if (value.is_number_integer()) return true;
  if (!value.is_number_float()) return false;
  const double number = value.get<double>();
  return number == std::floor(number) && std::abs(number) < 9e15;
}

}  // namespace

JsonObject::JsonObject(const json& value, std::string origin)
    : json_(&value), place_(std::move(origin)) {
  EMBLEM_REQUIRE(value.is_object(), place_, ": an object {...} is expected, but it is ",
                 shown(value));
}

const json* JsonObject::find(const char* key) {
  known_.insert(key);
  const auto found = json_->find(key);
  return found == json_->end() ? nullptr : &*found;
}

bool JsonObject::has(const char* key) const { return json_->contains(key); }

void JsonObject::demand(const char* key) const {
  EMBLEM_REQUIRE(has(key), place_, ": \"", key, "\" is missing; it must be given");
}

void JsonObject::refuse(const char* key, std::string_view reason) const {
  const auto found = json_->find(key);
  throw Error(ErrorCode::kInvalidArgument,
              cat(place_, ": \"", key, "\" is ", found == json_->end() ? "absent" : shown(*found),
                  ", but ", reason));
}

void JsonObject::read(const char* key, bool& value) {
  const json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_boolean()) refuse(key, "true or false is expected");
  value = found->get<bool>();
}

void JsonObject::read(const char* key, int64_t& value) {
  const json* found = find(key);
  if (found == nullptr) return;
  if (!whole(*found)) refuse(key, "a whole number is expected");
  if (found->is_number_unsigned() &&
      found->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    refuse(key, "at most 2^63 - 1 is possible");
  }
  value =
      found->is_number_float() ? static_cast<int64_t>(found->get<double>()) : found->get<int64_t>();
}

void JsonObject::read(const char* key, int& value) {
  int64_t wide = value;
  read(key, wide);
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
    refuse(key, "at most 2^31 - 1 is possible");
  }
  value = static_cast<int>(wide);
}

void JsonObject::read(const char* key, uint64_t& value) {
  const json* found = find(key);
  if (found == nullptr) return;
  if (!whole(*found) || (!found->is_number_unsigned() && found->get<double>() < 0)) {
    refuse(key, "a whole number of 0 or more is expected");
  }
  value = found->is_number_float() ? static_cast<uint64_t>(found->get<double>())
                                   : found->get<uint64_t>();
}

void JsonObject::read(const char* key, double& value) {
  const json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_number()) refuse(key, "a number is expected");
  value = found->get<double>();
}

void JsonObject::read(const char* key, std::string& value) {
  const json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_string()) refuse(key, "a string is expected");
  value = found->get<std::string>();
}

void JsonObject::read(const char* key, std::vector<int64_t>& value) {
  const json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_array()) refuse(key, "an array of whole numbers is expected");
  value.clear();
  for (const json& item : *found) {
    if (!whole(item)) refuse(key, "an array of whole numbers is expected");
    value.push_back(item.is_number_float() ? static_cast<int64_t>(item.get<double>())
                                           : item.get<int64_t>());
  }
}

void JsonObject::read(const char* key, std::vector<float>& value) {
  const json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_array()) refuse(key, "an array of numbers is expected");
  value.clear();
  for (const json& item : *found) {
    if (!item.is_number()) refuse(key, "an array of numbers is expected");
    value.push_back(item.get<float>());
  }
}

void JsonObject::read(const char* key, std::vector<std::string>& value) {
  const json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_array()) refuse(key, "an array of strings is expected");
  value.clear();
  for (const json& item : *found) {
    if (!item.is_string()) refuse(key, "an array of strings is expected");
    value.push_back(item.get<std::string>());
  }
}

std::string JsonObject::place_of(std::string_view key) const {
  return cat(place_, is_whole_ ? ": " : ".", key);
}

JsonObject JsonObject::object(const char* key) {
  demand(key);
  JsonObject part(*find(key), place_of(key));
  part.is_whole_ = false;
  return part;
}

std::vector<JsonObject> JsonObject::objects(const char* key) {
  demand(key);
  const json& array = *find(key);
  if (!array.is_array()) refuse(key, "an array of objects is expected");
  std::vector<JsonObject> objects;
  for (const json& item : array) {
    objects.emplace_back(item, cat(place_of(key), "[", objects.size(), "]"));
    objects.back().is_whole_ = false;
  }
  return objects;
}

bool JsonObject::ignore(const char* key) { return find(key) != nullptr; }

void JsonObject::finish() const {
  for (const auto& [key, value] : json_->items()) {
    if (known_.contains(key)) continue;
    const std::vector<std::string> candidates(known_.begin(), known_.end());
    const auto nearest = nearest_name(key, candidates);
    throw Error(ErrorCode::kInvalidArgument,
                cat(place_, ": the key \"", key, "\" is not known",
                    nearest ? cat("; did you mean \"", *nearest, "\"?") : std::string()));
  }
}

}  // namespace emblem
