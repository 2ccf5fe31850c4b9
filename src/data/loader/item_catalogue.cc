#include "data/loader/item_catalogue.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/files/file.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "data/loader/sampling/item_texts.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// The next part of `text`, which ends before the separator; `text` becomes what follows it.
std::string_view take_until(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

std::string_view take_line(std::string_view& text) {
  std::string_view line = take_until(text, '\n');
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

class ItemFile {
 public:
  explicit ItemFile(const ItemSamplerSpec& sampler) : sampler_(sampler) {}

  // Gives the attributes of each item to take(item, attributes); returns the weights.
  template <class Take>
  std::vector<double> read(const Take& take) {
    const std::string content = read_text_file(sampler_.input_path);
    std::string_view rest = content;
    check_header(take_line(rest));
    std::vector<double> weights;
    std::vector<std::string_view> attributes(sampler_.attr_fields.size());
    while (!rest.empty()) {
      ++line_;
      std::string_view line = take_line(rest);
      if (line.empty()) continue;
      weights.push_back(read_item(line, attributes));
      const std::string problem = take(std::ssize(weights) - 1, attributes);
      if (!problem.empty()) fail(problem);
    }
    if (!(std::accumulate(weights.begin(), weights.end(), 0.0) > 0))
      throw Error(ErrorCode::kInvalidArgument,
                  cat(sampler_.input_path,
                      " has no items to sample from: expected lines with a "
                      "weight above 0"));
    return weights;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorCode::kCorruption, cat(sampler_.input_path, ", line ", line_, ": ", problem));
  }

  void check_header(std::string_view line) const {
    for (const char* name : {"id", "weight", "attrs"}) {
      const std::string_view field = take_until(line, sampler_.field_delimiter);
      if (field.substr(0, field.find(':')) != name)
        fail(cat("a field of the first line is \"", printable(std::string(field)), "\", expected ",
                 name, "; the line names id:int64, weight:float and attrs:string"));
    }
  }

  double read_item(std::string_view line, std::vector<std::string_view>& attributes) const {
    const std::string_view id = take_until(line, sampler_.field_delimiter),
                           weight = take_until(line, sampler_.field_delimiter);
    if (id.empty()) fail("the item has no id");
    const auto value = parse_number<double>(weight);
    if (!value || !std::isfinite(*value) || *value < 0)
      fail(cat("the weight is \"", printable(std::string(weight)),
               "\", expected a number of at least 0"));
    const auto count = 1 + std::count(line.begin(), line.end(), sampler_.attr_delimiter);
    if (count != std::ssize(attributes))
      fail(cat("the item has ", count, " attributes, expected ", attributes.size(),
               ", one for each of attr_fields"));
    for (std::string_view& attribute : attributes)
      attribute = take_until(line, sampler_.attr_delimiter);
    return *value;
  }

  const ItemSamplerSpec& sampler_;
  int64_t line_ = 1;
};

}  // namespace

ItemCatalogue read_items(const config::DataConfig& data, const FeatureLayout& layout,
                         const ItemSamplerSpec& sampler) {
  ItemTexts texts(data, layout_of_items(layout), sampler);
  ItemCatalogue catalogue;
  catalogue.weights = ItemFile(sampler).read(
      [&](int64_t, const auto& attributes) { return texts.add(attributes); });
  catalogue.features = texts.features();
  return catalogue;
}

}  // namespace emblem
