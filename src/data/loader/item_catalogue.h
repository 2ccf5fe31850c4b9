// data/loader/item_catalogue.h - the items that a sampler chooses from, with their features.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/feature/items.h"
#include "data/batch.h"
#include "data/source/storage.h"

namespace emblem {

struct ItemCatalogue {
  std::vector<double> weights;  // of each item; their sum is above 0
  Batch features;               // a row for each item, laid out by layout_of_items
  // Of samplers that read edges: the row of each id.
  std::unordered_map<std::string, uint32_t> rows_of_ids;
};

// Reads a text file whose first line is "id:int64<TAB>weight:float<TAB>attrs:string". The
// attributes of an item are in the order of attr_fields, with attr_delimiter between them, and
// become features as columns of CSV do. Throws Error with file and line for what is not so.
ItemCatalogue read_items(const config::DataConfig& data, const FeatureLayout& layout,
                         const ItemSamplerSpec& sampler, const Storage& storage);

}  // namespace emblem
