#include "data/loader/item_catalogue.h"

#include <algorithm>
#include <numeric>

#include "core/text/text.h"
#include "data/items/id_file.h"
#include "data/items/text_rows.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Sets the attributes of the item that is the file's line.
void split_attributes(const IdFile& file, const ItemSamplerSpec& sampler,
                      std::vector<std::string_view>& attributes) {
  std::string_view text = file[2];
  const auto count = 1 + std::count(text.begin(), text.end(), sampler.attr_delimiter);
  if (count != std::ssize(attributes))
    file.fail(cat("the item has ", count, " attributes, expected ", attributes.size(),
                  ", one for each of attr_fields"));
  for (std::string_view& attribute : attributes)
    attribute = take_until(text, sampler.attr_delimiter);
}

}  // namespace

ItemCatalogue read_items(const config::DataConfig& data, const FeatureLayout& layout,
                         const ItemSamplerSpec& sampler, const Storage& storage) {
  TextRows rows(data, layout_of_items(layout), sampler.attr_fields, sampler.input_path);
  const bool needs_ids = !sampler.user_input_path.empty();
  ItemCatalogue catalogue;
  std::vector<std::string_view> attributes(sampler.attr_fields.size());
  for (IdFile file(sampler.input_path, {"id:int64", "weight:float", "attrs:string"},
                   sampler.field_delimiter, storage);
       file.next();) {
    const auto row = static_cast<uint32_t>(catalogue.weights.size());
    if (needs_ids && !catalogue.rows_of_ids.emplace(file[0], row).second)
      file.fail(cat("item \"", printable(std::string(file[0])), "\" is there twice"));
    catalogue.weights.push_back(file.weight(1));
    split_attributes(file, sampler, attributes);
    const std::string problem = rows.add(attributes);
    if (!problem.empty()) file.fail(problem);
  }
  if (!(std::accumulate(catalogue.weights.begin(), catalogue.weights.end(), 0.0) > 0))
    throw Error(ErrorCode::kInvalidArgument,
                cat(sampler.input_path,
                    " has no items to sample from: expected lines with a weight above 0"));
  catalogue.features = rows.features();
  return catalogue;
}

}  // namespace emblem
