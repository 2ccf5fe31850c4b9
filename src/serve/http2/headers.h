// serve/http2/headers.h - the fields of a request, in one piece of memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace emblem {

class Http2Headers {
 public:
  void add(std::string_view name, std::string_view value) {
    fields_.push_back({static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(name.size()),
                       static_cast<uint32_t>(value.size())});
    text_.append(name).append(value);
  }

  // The value of the first field of this name (lower case; ":path" too); empty where it is missing.
  std::string_view find(std::string_view name) const {
    for (const Field& field : fields_) {
      if (name_of(field) == name)
        return std::string_view(text_).substr(field.at + field.name_bytes, field.value_bytes);
    }
    return {};
  }

  size_t count(std::string_view name) const {
    size_t count = 0;
    for (const Field& field : fields_) count += name_of(field) == name ? 1 : 0;
    return count;
  }

  // As HTTP/2 counts them: 32 bytes for each field in addition.
  size_t bytes() const { return text_.size() + 32 * fields_.size(); }

 private:
  struct Field {
    uint32_t at, name_bytes, value_bytes;  // in text_; the value follows the name
  };

  std::string_view name_of(const Field& field) const {
    return std::string_view(text_).substr(field.at, field.name_bytes);
  }

  std::string text_;
  std::vector<Field> fields_;
};

// Fields of a response.
using Http2Fields = std::vector<std::pair<std::string_view, std::string_view>>;

}  // namespace emblem
