// train/predict/item_vectors.h - the items of a file as vectors of a matching model's item tower.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/feature/matching.h"
#include "retrieval/faiss_folder.h"
#include "train/predict/pass_watch.h"
#include "train/state/restored.h"

namespace emblem {

// The columns of a file of items that are not features.
struct ItemColumns {
  std::string id;                        // whole numbers
  std::vector<std::string> attributes;   // 1, true, 0, false; empty: false
  std::vector<std::string> stored = {};  // texts that are kept as they are
};

struct EncodedItems {
  std::vector<int64_t> ids;
  std::vector<float> vectors;  // [ids, dim]
  int64_t dim = 0;
  std::vector<uint64_t> attributes;  // a bit for each of ItemColumns::attributes; empty without any
  std::vector<std::string> stored;   // [ids, ItemColumns::stored]
  PredictionPass pass;
};

// The id of an item in a column of a file. Throws Error that begins with `where`.
int64_t parse_item_id(const std::string& text, const std::string& column, const std::string& where);

// Encodes the rows of `items` that fulfil `filters` (all of them without any), in their order. Only
// the columns of the item tower are read, and `columns`. Bad rows are skipped; throws kCorruption
// where there are more than data_config.max_bad_rows. Throws kInvalidArgument for a model without
// an item tower, which `model` must have been restored for (RestoredFor::kPrediction), for a file
// without items, for ids that are not whole numbers or not unique, and for vectors with NaN.
EncodedItems encode_items(RestoredModel& model, const std::string& items,
                          const ItemColumns& columns, const std::vector<std::string>& filters = {},
                          const PassWatch& watch = {});

// The items of a faiss folder, for the tower of users of a model. Throws as read_faiss_folder does,
// and kInvalidArgument for vectors of another width and for a folder without items.
FaissFolder read_faiss_items(const std::string& path, const MatchingSpec& model);

}  // namespace emblem
