// retrieval/faiss_folder.h - the folders of items that TorchEasyRec's create_faiss_index writes.
//
// `faiss_index` is a file of faiss: a flat index ("IxFI") or one with lists ("IwFl") of fp32
// vectors and inner products. `id_mapping` is a text with the id of each item in a line of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "retrieval/index.h"

namespace emblem {

struct FaissFolder {
  int64_t dim = 0;
  std::vector<int64_t> ids;
  std::vector<float> vectors;    // [ids.size(), dim], in the order of lists
  std::vector<int64_t> lists;    // items of each; empty: a flat index
  std::vector<float> centroids;  // [lists.size(), dim]
  int64_t probes = 1;            // lists that a search looks at

  Items items() const { return {.ids = ids, .vectors = {vectors.data(), std::ssize(ids), dim}}; }
  ItemLists item_lists() const {
    return {.lengths = lists, .centroids = {centroids.data(), std::ssize(lists), dim}};
  }
};

// Whether there is a folder with a file `faiss_index`.
bool is_faiss_folder(const std::string& path);

// Throws Error that names the file: kNotFound where it is missing, kCorruption for damage,
// kInvalidArgument for another kind of index and for ids that are not distinct whole numbers.
FaissFolder read_faiss_folder(const std::string& path);

// Writes the vectors of an index, as they are stored, in fp32. The folder must not exist; it
// appears whole or not at all. Items that were added since the lists were made are refused.
void write_faiss_folder(const Index& index, const std::string& path);

}  // namespace emblem
