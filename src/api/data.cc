#include "api/data.h"

#include <mutex>
#include <utility>

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

// The function that gives the tables of a new pass.
api::NextData begin_pass(const std::function<api::NextData()>& begin) {
  api::NextData next = begin();
  EMBLEM_REQUIRE(next != nullptr,
                 "the function that begins a pass returns an empty function; expected one that "
                 "gives tables");
  return next;
}

// A pass over the tables of Data that are given one by one.
NextTable tables_of_pass(api::NextData next) {
  return [next = std::move(next), left = MemoryTables()]() mutable {
    std::shared_ptr<const ColumnTable> table;
    while (table == nullptr) {
      if (left.empty()) {
        const api::Data data = next();
        if (data.is_empty()) break;
        EMBLEM_REQUIRE(data.rows() >= 0, "expected tables in memory, not files or passes");
        left.assign(data.state()->tables.rbegin(), data.state()->tables.rend());
      }
      table = std::move(left.back());
      left.pop_back();
    }
    return table;
  };
}

// Passes over the rows of a caller. Readers that look at the first table alone, as a run does
// before it begins, leave their pass to the next reader.
class Passes : public std::enable_shared_from_this<Passes> {
 public:
  explicit Passes(std::function<api::NextData()> begin) : begin_(std::move(begin)) {}

  NextTable begin() {
    std::unique_ptr<Pass> pass;
    {
      const std::lock_guard lock(mutex_);
      pass = std::move(left_);
    }
    if (pass == nullptr) pass.reset(new Pass{tables_of_pass(begin_pass(begin_))});
    pass->is_given = false;
    const auto end = [passes = shared_from_this()](Pass* at) {
      std::unique_ptr<Pass> ended(at);
      if (ended->first == nullptr) return;
      const std::lock_guard lock(passes->mutex_);
      passes->left_ = std::move(ended);
    };
    return [pass = std::shared_ptr<Pass>(pass.release(), end)] { return pass->take(); };
  }

 private:
  struct Pass {
    NextTable next;
    std::shared_ptr<const ColumnTable> first = nullptr;  // until the second is asked for
    bool is_given = false;                               // the first, to the present reader

    std::shared_ptr<const ColumnTable> take() {
      const bool is_first = !std::exchange(is_given, true);
      if (!is_first) first = nullptr;
      if (first != nullptr) return first;
      std::shared_ptr<const ColumnTable> table = next();
      if (is_first) first = table;
      return table;
    }
  };

  const std::function<api::NextData()> begin_;
  std::mutex mutex_;
  std::unique_ptr<Pass> left_;  // guarded by mutex_
};

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

Data Data::passes(std::function<NextData()> begin_pass) {
  EMBLEM_REQUIRE(begin_pass != nullptr, "the function that begins a pass is empty");
  Data data;
  data.state_ = std::make_shared<State>(
      State{.paths = {}, .tables = {}, .begin_pass = std::move(begin_pass)});
  return data;
}

bool Data::is_streamed() const { return state_ != nullptr && state_->begin_pass != nullptr; }

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
  input_ = rows.paths.empty() ? "memory://" + name : rows.paths;
  if (!rows.tables.empty()) storage_->set_tables(input_, rows.tables);
  if (rows.begin_pass != nullptr)
    storage_->set_table_passes(
        input_, [passes = std::make_shared<Passes>(rows.begin_pass)] { return passes->begin(); });
}

GivenRows::~GivenRows() {
  if (!is_memory_address(input_)) return;
  storage_->set_tables(input_, {});
  storage_->set_table_passes(input_, nullptr);
}

FirstRows first_rows(const api::Data& data, int64_t rows) {
  if (!data.is_streamed()) return {data};
  const api::NextData next = begin_pass(data.state()->begin_pass);
  std::vector<api::Data> parts;
  int64_t found = 0;
  bool has_more = true;
  while (has_more && (rows == 0 || found < rows)) {
    api::Data part = next();
    has_more = !part.is_empty();
    if (!has_more) break;
    found += part.rows();
    parts.push_back(std::move(part));
  }
  EMBLEM_REQUIRE(!parts.empty(),
                 "a pass over the data gives no tables: there are none, or they can be read once "
                 "alone and were read before");
  return {api::Data::join(parts), has_more};
}

}  // namespace emblem
