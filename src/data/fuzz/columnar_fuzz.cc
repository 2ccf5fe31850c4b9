// Fuzzes the readers of Parquet and Arrow IPC files. Whatever is in a file, the only way out is
// blocks that hold what they promise, or an Error. ORC files are read by a process that may die.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>

#include "data/format/columnar/columnar_decoder.h"
#include "emblem/error.h"

namespace emblem {
namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

void check_offsets(const HostVector<int32_t>& offsets, int64_t lists, size_t values) {
  require(offsets.size() == static_cast<size_t>(lists) + 1 && offsets.front() == 0);
  for (size_t i = 1; i < offsets.size(); ++i) require(offsets[i - 1] <= offsets[i]);
  require(static_cast<size_t>(offsets.back()) == values);
}

void check(const Column& column, int64_t rows) {
  const size_t values = values_in(column);
  int64_t bags = rows;
  if (!column.sequence_offsets.empty()) {
    bags = column.sequence_offsets.back();
    const size_t elements = column.offsets.empty() ? values : column.offsets.size() - 1;
    check_offsets(column.sequence_offsets, rows, elements);
  }
  if (!column.offsets.empty()) check_offsets(column.offsets, bags, values);
  if (column.offsets.empty()) require(values == static_cast<size_t>(bags));
  require(column.missing.empty() || column.missing.size() == values);
  require(column.weights.empty() || column.weights.size() == values);
  for (size_t i = 1; i < column.text_ends.size(); ++i)
    require(column.text_ends[i - 1] <= column.text_ends[i]);
  require(column.text_ends.empty() || column.text_ends.back() == column.text.size());
}

void read(const std::string& path, config::DatasetType type) {
  DataSource source;
  source.type = type;
  source.input = path;
  source.max_bad_rows = INT64_MAX;
  const auto reader = open_reader(source);
  Block block;
  int64_t rows = 0;
  while (rows < 100000 && reader->next(block)) {
    rows += block.rows;
    for (const Column& column : block.columns) check(column, block.rows);
  }
}

}  // namespace
}  // namespace emblem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int file = memfd_create("columnar_fuzz", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  using namespace emblem;
  for (const auto type : {config::ParquetDataset, config::ArrowDataset}) {
    try {
      read(path, type);
    } catch (const Error&) {
      // The answer to most of what a fuzzer makes.
    } catch (const std::bad_alloc&) {
      // Sizes in a file are not to be believed.
    }
  }
  close(file);
  return 0;
}
