// emblem/data.h - rows to train on, to evaluate and to predict: files, or tables in memory.
//
// Tables are read where they are, without a copy, by the same rules as a Parquet file with these
// columns: the same rows give the same model and the same predictions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "emblem/api.h"

// The Arrow C data interface (https://arrow.apache.org/docs/format/CDataInterface.html).
extern "C" {
struct ArrowSchema;
struct ArrowArray;
struct ArrowArrayStream;
}

namespace emblem {
EMBLEM_PUBLIC {
  // A column of plain memory: a value per row, or with `offsets` a list of values per row.
  struct Column {
    std::string name;
    std::variant<std::span<const float>, std::span<const double>, std::span<const int32_t>,
                 std::span<const int64_t>, std::span<const std::string>>
        values;                             // strings are copied
    std::span<const uint8_t> missing = {};  // per value, 1: missing; or empty. NaN is missing, too
    std::span<const int32_t> offsets =
        {};  // [rows + 1]: row i is values [offsets[i], offsets[i + 1])
    // "s", "ms", "us", "ns": values are int64, timestamps in this unit since 1970; "day": they are
    // int32, dates. Empty: they are numbers.
    std::string time_unit = {};
  };

  class Data;
  // Gives one table after the other: Data in memory; Data without rows at the end.
  using NextData = std::function<Data()>;

  // Copies share the rows. Thread-safe: rows are only read.
  class EMBLEM_API Data {
   public:
    // No rows: what a pipeline names, or nothing.
    Data() = default;

    // Files, folders, globs and addresses (s3://, gs://, https://), comma-separated. They are
    // opened by those who read them.
    static Data files(const std::string& paths);

    // All record batches of a stream, which is taken over: its `release` is null afterwards, also
    // where an Error is thrown. The batches are released with the last copy of the Data.
    static Data stream(ArrowArrayStream* stream);

    // One record batch, a struct array whose fields are the columns. Both are taken over.
    static Data batch(ArrowSchema* schema, ArrowArray* array);

    // Columns of the same number of rows. Their memory is not copied and stays unchanged as long as
    // the Data and its copies are used; `owner`, if any, is kept until then. Throws Error that
    // names the column where lengths differ or offsets are out of range.
    static Data columns(const std::vector<Column>& columns,
                        std::shared_ptr<const void> owner = nullptr);

    // The rows of tables one after the other. All have the columns of the first.
    static Data join(const std::vector<Data>& parts);

    // Rows that are asked for while they are read, so that few tables are in memory at a time.
    // `begin_pass` begins with the first row again, each time with the same rows: training makes a
    // pass per epoch and one per evaluation, a prediction one. Both functions are called by threads
    // of the library, of a pass by one at a time; what they throw reaches the caller, after the
    // rows before. All tables have the columns of the first. For one process: ranks read files, or
    // tables in memory. A pipeline is chosen by the first rows.
    static Data passes(std::function<NextData()> begin_pass);

    bool is_empty() const { return state_ == nullptr; }
    bool is_streamed() const;  // from passes
    // Rows of tables in memory; -1 for files, which are not opened here, and for passes.
    int64_t rows() const;

    struct State;  // known to the library alone
    const State* state() const { return state_.get(); }

   private:
    std::shared_ptr<const State> state_;
  };

}  // namespace api
}  // namespace emblem
