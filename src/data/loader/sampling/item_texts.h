// data/loader/sampling/item_texts.h - features of items out of the texts of their attributes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/feature/items.h"
#include "data/batch.h"

namespace emblem {

// Attributes become features as columns of CSV do.
class ItemTexts {
 public:
  // `layout`: that of a row of features, in which features that are not of items read nothing
  // (layout_of_features). All that they read is among the sampler's attr_fields.
  ItemTexts(const config::DataConfig& data, const FeatureLayout& layout,
            const ItemSamplerSpec& sampler);
  ~ItemTexts();

  // Adds an item, with a text for each of attr_fields. Returns what is wrong with them, or "".
  std::string add(const std::vector<std::string_view>& attributes);

  // A row for each item that was added; call once. Throws Error that names input_path.
  Batch features();

 private:
  struct Columns;
  std::unique_ptr<Columns> columns_;
};

}  // namespace emblem
