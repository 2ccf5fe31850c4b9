#include "api/data.h"

#include "data/format/memory/table.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"

namespace emblem {
namespace {

ColumnSpan to_span(const api::Column& column) {
  ColumnSpan span{.name = column.name,
                  .missing = column.missing,
                  .offsets = column.offsets,
                  .time_unit = column.time_unit};
  std::visit([&](const auto& values) { span.values = values; }, column.values);
  return span;
}

MemoryTables read_all(ArrowArrayStream* stream) {
  MemoryTables tables;
  const NextTable next = tables_of(stream);
  while (auto table = next())
    if (table->rows() > 0 || tables.empty()) tables.push_back(std::move(table));
  EMBLEM_REQUIRE(!tables.empty(), "the stream has no record batches; expected at least one");
  return tables;
}

}  // namespace

namespace api {

Data Data::files(const std::string& paths) {
  EMBLEM_REQUIRE(!paths.empty(), "the path of the data is empty");
  Data data;
  data.state_ = std::make_shared<State>(State{.paths = paths});
  return data;
}

Data Data::stream(ArrowArrayStream* stream) {
  Data data;
  data.state_ = std::make_shared<State>(State{.tables = read_all(stream)});
  return data;
}

Data Data::batch(ArrowSchema* schema, ArrowArray* array) {
  Data data;
  data.state_ = std::make_shared<State>(State{.tables = {ColumnTable::of_batch(schema, array)}});
  return data;
}

Data Data::columns(const std::vector<Column>& columns, std::shared_ptr<const void> owner) {
  std::vector<ColumnSpan> spans;
  for (const Column& column : columns) spans.push_back(to_span(column));
  Data data;
  data.state_ =
      std::make_shared<State>(State{.tables = {ColumnTable::of_spans(spans, std::move(owner))}});
  return data;
}

Data Data::join(const std::vector<Data>& parts) {
  auto joined = std::make_shared<State>();
  for (const Data& part : parts) {
    EMBLEM_REQUIRE(part.rows() >= 0, "files cannot be joined with tables; name them in one list");
    if (part.is_empty()) continue;
    const MemoryTables& tables = part.state_->tables;
    joined->tables.insert(joined->tables.end(), tables.begin(), tables.end());
  }
  EMBLEM_REQUIRE(!joined->tables.empty(), "no parts with tables are given; expected at least one");
  Data data;
  data.state_ = std::move(joined);
  return data;
}

int64_t Data::rows() const {
  if (state_ == nullptr) return 0;
  if (state_->tables.empty()) return -1;
  int64_t rows = 0;
  for (const auto& table : state_->tables) rows += table->rows();
  return rows;
}

}  // namespace api

GivenRows::GivenRows(const api::Data& data, const std::string& name, Storage storage)
    : storage_(std::move(storage)) {
  if (data.is_empty()) return;
  const api::Data::State& rows = *data.state();
  input_ = rows.tables.empty() ? rows.paths : "memory://" + name;
  if (!rows.tables.empty()) storage_->set_tables(input_, rows.tables);
}

GivenRows::~GivenRows() {
  if (is_memory_address(input_)) storage_->set_tables(input_, {});
}

}  // namespace emblem
