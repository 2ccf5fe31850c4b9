// api/data.h - rows that a caller of the library gives, as the engine reads them.
#pragma once

#include <functional>
#include <string>

#include "data/source/storage.h"
#include "emblem/data.h"

namespace emblem {

struct api::Data::State {
  std::string paths;  // files; else tables, or passes over them
  MemoryTables tables;
  std::function<NextData()> begin_pass;
};

// The first tables of passes, with at least `rows` rows (0: all) where there are as many, and
// whether there are more; other Data as they are.
struct FirstRows {
  api::Data data;
  bool has_more = false;
};
FirstRows first_rows(const api::Data& data, int64_t rows);

// Rows of a call in a storage, which names them until this ends.
class GivenRows {
 public:
  // `name` ends the address of tables.
  GivenRows(const api::Data& data, const std::string& name, Storage storage);
  ~GivenRows();
  GivenRows(const GivenRows&) = delete;
  GivenRows& operator=(const GivenRows&) = delete;

  // Paths, or the address of the tables; "" without rows.
  const std::string& input() const { return input_; }

 private:
  Storage storage_;
  std::string input_;
};

}  // namespace emblem
