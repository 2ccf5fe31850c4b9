// ps/config/json_object.h - reads a JSON object key by key, so that what is wrong is named with its
// place: unknown keys, missing keys, values of another type.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

class JsonObject {
 public:
  // A whole file, named `origin` in messages. The JSON must outlive this.
  JsonObject(const nlohmann::json& json, std::string origin);

  const std::string& place() const { return place_; }  // "ps.json: volatile_db"
  bool has(const char* key) const;

  // Each leaves `value` as it is when the key is absent; throws when its type is another.
  void read(const char* key, bool& value);
  void read(const char* key, int64_t& value);
  void read(const char* key, int& value);
  void read(const char* key, uint64_t& value);
  void read(const char* key, double& value);
  void read(const char* key, std::string& value);
  void read(const char* key, std::vector<bool>& value) = delete;
  void read(const char* key, std::vector<int64_t>& value);
  void read(const char* key, std::vector<float>& value);
  void read(const char* key, std::vector<std::string>& value);
  // Throws when the key is absent.
  template <class Value>
  void require(const char* key, Value& value) {
    demand(key);
    read(key, value);
  }

  JsonObject object(const char* key);                // throws when absent
  std::vector<JsonObject> objects(const char* key);  // an array of them; throws when absent
  bool ignore(const char* key);                      // known, but without use; whether it is there
  // Throws for the first key that was asked for by none of the above, with the nearest that was.
  void finish() const;

  [[noreturn]] void refuse(const char* key, std::string_view reason) const;

 private:
  const nlohmann::json* find(const char* key);
  void demand(const char* key) const;

  std::string place_of(std::string_view key) const;

  const nlohmann::json* json_;
  bool is_whole_ = true;
  std::string place_;
  std::set<std::string> known_;
};

}  // namespace emblem
