#include "data/format/columnar/columnar_decoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "data/format/file_kind.h"
#include "data/format/rows/files_without_rows.h"
#include "data/format/rows/kept_columns.h"
#include "data/format/rows/select_rows.h"
#include "data/format/text/number_text.h"
#include "data/format/text/time_text.h"
#include "data/source/objects/arrow_absence.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// A value as text: as CSV files have it.
void write_value(const ColumnarField& field, const Column& column, size_t at, std::string& text) {
  if (column.type == ColumnType::kInt64) {
    if (column.is_marked_missing(at)) return;
    if (field.type == LeafType::kUnsigned) {
      write_integer(static_cast<uint64_t>(column.ints[at]), text);
    } else if (const ValueType values = field.values(); values.is_temporal()) {
      write_time(column.ints[at], values, text);
    } else {
      write_integer(column.ints[at], text);
    }
  } else if (column.type == ColumnType::kFloat) {
    if (!std::isnan(column.floats[at])) write_number(column.floats[at], text);
  } else {
    text += text_at(column, at);
  }
  if (column.weights.empty()) return;
  text += ':';
  write_number(column.weights[at], text);
}

// The text of a value of a list must not be cut at a separator.
void require_whole(const ColumnarField& field, std::string_view value) {
  const char* const separators = field.lists > 1 ? "\x1d;" : "\x1d";
  EMBLEM_REQUIRE(field.lists == 0 || value.find_first_of(separators) == value.npos, "column ",
                 in_quotes(field.name), " cannot be kept: a value of its lists, ", in_quotes(value),
                 ", holds a separator of values (\\x1d", field.lists > 1 ? " or ';')" : ")");
}

// Values of a bag with \x1d between them, elements of a sequence with ';'. A missing number keeps
// its place in a vector.
std::string row_text(const ColumnarField& field, const Column& column, int64_t row) {
  const auto bags = [&](int64_t at) -> Extent {
    return column.sequence_offsets.empty()
               ? Extent{at, at + 1}
               : Extent{column.sequence_offsets[at], column.sequence_offsets[at + 1]};
  };
  std::string text;
  const Extent elements = bags(row);
  for (int64_t bag = elements.begin; bag < elements.end; ++bag) {
    if (bag > elements.begin) text += ';';
    const int64_t begin = column.offsets.empty() ? bag : column.offsets[bag];
    const int64_t end = column.offsets.empty() ? bag + 1 : column.offsets[bag + 1];
    for (int64_t at = begin; at < end; ++at) {
      if (at > begin) text += '\x1d';
      const size_t start = text.size();
      write_value(field, column, static_cast<size_t>(at), text);
      if (field.lists == 0) continue;
      const bool is_fraction = field.type == LeafType::kFloat || field.type == LeafType::kDouble;
      if (text.size() == start && is_fraction) text += "NaN";
      require_whole(field, std::string_view(text).substr(start));
    }
  }
  return text;
}

int64_t rows_of(const ColumnarFile& file) {
  return std::accumulate(file.part_rows().begin(), file.part_rows().end(), int64_t{0});
}

struct ColumnarFormat {
  const char* name;  // as in data/format/file_kind.h
  std::unique_ptr<ColumnarFile> (*open)(const std::string& path, const Storage& storage);
};

ColumnarFormat format_of(config::DatasetType type) {
  switch (type) {
    case config::ParquetDataset:
      return {"Parquet", open_parquet_file};
    case config::OrcDataset:
      return {"ORC", open_orc_file};
    default:
      return {"Arrow IPC", open_arrow_file};
  }
}

// Null where it has 0 bytes.
std::unique_ptr<ColumnarFile> open_file(config::DatasetType type, const std::string& path,
                                        const Storage& storage) {
  const InputFile file(path, storage);
  if (file.bytes() == 0) return nullptr;
  const ColumnarFormat format = format_of(type);
  try {
    return format.open(path, storage);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorruption) throw;
    std::string start(static_cast<size_t>(std::min(file.bytes(), kFileKindBytes)), '\0');
    file.read(0, static_cast<int64_t>(start.size()), start.data());
    const std::string problem = not_columnar_problem(start, file.path(), format.name);
    if (problem.empty()) throw;
    throw Error(ErrorCode::kInvalidArgument, problem);
  }
}

}  // namespace

struct ColumnarDecoder::Cursor final : DecoderCursor {
  const void* owner = nullptr;
  int file = -1;
  int part = -1;
  int64_t next = 0;   // row of the file
  int64_t bytes = 0;  // size of what is read of the part, or of the whole file
  std::unique_ptr<PartReader> reader;
  std::vector<Column> extra;  // columns of filters and kept columns
  Column scratch;
  std::vector<ValueProblem> value_problems;
  std::vector<RowProblem> problems;
};

ColumnarDecoder::ColumnarDecoder(const DataSource& source,
                                 const std::vector<ColumnRequest>* requests,
                                 std::vector<std::unique_ptr<ColumnarFile>> files) {
  EMBLEM_REQUIRE(!files.empty(), "no files in ", in_quotes(source.input));
  const auto with_rows =
      std::find_if(files.begin(), files.end(), [](const auto& file) { return rows_of(*file) > 0; });
  const ColumnarFile& first = with_rows == files.end() ? *files[0] : **with_rows;
  selection_ = std::make_shared<ColumnSelection>(source, requests, first.fields(), first.path());
  files_.reserve(files.size());
  for (size_t i = 0; i < files.size(); ++i) add_file(std::move(files[i]), {static_cast<int>(i), 0});
}

ColumnarDecoder::ColumnarDecoder(std::shared_ptr<const ColumnSelection> selection,
                                 std::vector<std::unique_ptr<ColumnarFile>> files, FilePlace place)
    : selection_(std::move(selection)) {
  for (std::unique_ptr<ColumnarFile>& file : files) {
    add_file(std::move(file), place);
    place.first_row = files_.back().first_rows.back();
  }
}

void ColumnarDecoder::add_file(std::unique_ptr<ColumnarFile> file, FilePlace place) {
  File& added = files_.emplace_back();
  names_.push_back(file->path());
  added.number = place.number;
  added.rows = rows_of(*file);
  added.first_rows.push_back(place.first_row);
  if (added.rows > 0) {  // writers of no rows do not know the types of all columns
    added.reads = selection_->reads(file->fields(), file->path());
    for (const int64_t rows : file->part_rows())
      added.first_rows.push_back(added.first_rows.back() + rows);
  }
  added.file = std::move(file);
}

bool ColumnarDecoder::may_have_rows(const File& file, int part) const {
  for (size_t i = 0; i < filters().size(); ++i) {
    const std::optional<ValueBounds> bounds =
        file.file->bounds(part, file.reads[columns().size() + i].field);
    if (bounds && !filters()[i].may_keep(*bounds)) return false;
  }
  return true;
}

std::vector<Extent> ColumnarDecoder::parts(int file) const {
  const File& from = files_[static_cast<size_t>(file)];
  std::vector<Extent> parts;
  for (size_t part = 0; part + 1 < from.first_rows.size(); ++part) {
    const Extent extent{from.first_rows[part], from.first_rows[part + 1]};
    if (extent.begin < extent.end && may_have_rows(from, static_cast<int>(part)))
      parts.push_back(extent);
  }
  return parts;
}

std::string ColumnarDecoder::read_directly() {
  std::string refused;
  for (const File& file : files_)
    if (!file.file->read_directly() && refused.empty()) refused = file.file->path();
  return refused;
}

// Parts are stored in the order of their rows, with about as many bytes per row.
void ColumnarDecoder::prefetch(int file, Extent range) const {
  const File& from = files_[static_cast<size_t>(file)];
  const double bytes_of_row =
      static_cast<double>(from.file->bytes()) / static_cast<double>(from.rows);
  const auto begin = static_cast<int64_t>(bytes_of_row * static_cast<double>(range.begin));
  from.file->prefetch(begin,
                      static_cast<int64_t>(bytes_of_row * static_cast<double>(range.end)) - begin);
}

ColumnarDecoder::Cursor& ColumnarDecoder::cursor_at(int file, Extent range,
                                                    DecodedPiece& out) const {
  const File& from = files_[static_cast<size_t>(file)];
  const auto part = static_cast<int>(
      std::upper_bound(from.first_rows.begin(), from.first_rows.end(), range.begin) -
      from.first_rows.begin() - 1);
  auto* cursor = dynamic_cast<Cursor*>(out.cursor.get());
  if (cursor == nullptr) {
    out.cursor = std::make_unique<Cursor>();
    cursor = static_cast<Cursor*>(out.cursor.get());
  }
  const bool is_open = cursor->owner == this && cursor->reader != nullptr && cursor->file == file &&
                       cursor->part == part && cursor->next >= 0;
  if (is_open && (cursor->next == range.begin || !from.file->reads_forward())) {
    if (cursor->next != range.begin) cursor->reader->skip(range.begin - cursor->next);
    return *cursor;
  }
  cursor->reader.reset();
  cursor->owner = this;
  cursor->file = file;
  cursor->part = part;
  cursor->extra.resize(selection_->fits.size() - columns().size());
  cursor->reader = from.file->open(part, from.reads);
  cursor->bytes =
      selection_->all_columns ? from.file->bytes() : from.file->part_bytes(part, from.reads);
  const int64_t before = range.begin - from.first_rows[static_cast<size_t>(part)];
  if (before > 0) cursor->reader->skip(before);
  return *cursor;
}

// Bytes of the columns that are read: the share that the rows have of a part, or of the whole
// file where all columns are.
int64_t ColumnarDecoder::bytes_of(const File& file, Extent range, const Cursor& cursor) const {
  const auto part = static_cast<size_t>(cursor.part);
  const int64_t begin = file.first_rows[selection_->all_columns ? 0 : part];
  const int64_t end = selection_->all_columns ? file.first_rows.back() : file.first_rows[part + 1];
  const auto bytes_before = [&](int64_t row) {
    return static_cast<int64_t>(static_cast<double>(cursor.bytes) *
                                static_cast<double>(row - begin) /
                                static_cast<double>(std::max<int64_t>(end - begin, 1)));
  };
  return bytes_before(range.end) - bytes_before(range.begin);
}

std::vector<int32_t> ColumnarDecoder::wanted_rows(int number, Extent range, const RowSample& sample,
                                                  const Random* shuffle,
                                                  const Cursor& cursor) const {
  std::vector<int32_t> rows;
  rows.reserve(static_cast<size_t>(range.end - range.begin));
  for (int64_t row = 0; row < range.end - range.begin; ++row) {
    bool kept = sample.keeps_all() || sample.keeps(number, range.begin + row);
    for (size_t i = 0; i < filters().size() && kept; ++i)
      kept = filters()[i].keeps(cursor.extra[i], row);
    if (kept) rows.push_back(static_cast<int32_t>(row));
  }
  if (shuffle != nullptr) shuffle_items(rows, *shuffle);
  return rows;
}

void ColumnarDecoder::keep_rows(const std::vector<int32_t>& rows, const Cursor& cursor,
                                TextColumn& kept) const {
  const size_t first = filters().size();
  std::vector<std::string> values(cursor.extra.size() - first);
  for (const int32_t row : rows) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] =
          row_text(selection_->fields[columns().size() + first + i], cursor.extra[first + i], row);
    kept.append(csv_line(values));
  }
}

void ColumnarDecoder::decode(int file, Extent range, const RowSample& sample, const Random* shuffle,
                             DecodedPiece& out) const {
  Cursor& cursor = cursor_at(file, range, out);
  const File& from = files_[static_cast<size_t>(file)];
  const int64_t rows = range.end - range.begin;
  EMBLEM_REQUIRE(range.end <= from.first_rows[static_cast<size_t>(cursor.part) + 1],
                 "rows of two parts of ", from.file->path(), " are read at once");
  out.file = from.number;
  out.bad = {};
  out.bad_positions.clear();
  out.kept.clear();
  out.block.columns.resize(columns().size());
  cursor.problems.clear();
  cursor.next = -1;  // what follows may throw
  for (size_t i = 0; i < selection_->fits.size(); ++i) {
    Column& column =
        i < columns().size() ? out.block.columns[i] : cursor.extra[i - columns().size()];
    cursor.value_problems.clear();
    cursor.reader->read(i, rows, column, cursor.value_problems);
    selection_->fits[i].apply(rows, column, cursor.value_problems, cursor.scratch, cursor.problems);
  }
  cursor.next = range.end;
  out.bytes = bytes_of(from, range, cursor);
  if (range.end == from.first_rows[static_cast<size_t>(cursor.part) + 1] &&
      from.file->reads_forward())
    cursor.reader.reset();

  out.block.rows = rows;
  out.positions.resize(static_cast<size_t>(rows));
  std::iota(out.positions.begin(), out.positions.end(), range.begin);
  const bool takes_all = sample.keeps_all() && filters().empty() && shuffle == nullptr;
  const bool keeps_text = cursor.extra.size() > filters().size();
  if (takes_all && cursor.problems.empty() && !keeps_text) return;
  const std::vector<int32_t> wanted = wanted_rows(from.number, range, sample, shuffle, cursor);
  if (keeps_text) keep_rows(wanted, cursor, out.kept);
  if (!takes_all || !cursor.problems.empty())
    take_rows(wanted, cursor.problems, cursor.scratch, out);
}

std::string ColumnarDecoder::locate(int file, int64_t position) const {
  return cat(names_[static_cast<size_t>(file)], ": row ", position + 1);
}

std::optional<ColumnarLayout> columnar_layout(const DataSource& source) {
  if (!is_columnar(source.type)) return std::nullopt;
  ColumnarLayout layout;
  for (const std::string& path : expand_inputs(source.input, source.storage)) {
    const std::unique_ptr<ColumnarFile> file = open_file(source.type, path, source.storage);
    if (file == nullptr) continue;
    layout.part_name = file->part_name();
    layout.parts += static_cast<int64_t>(file->part_rows().size());
    const int64_t rows_before = layout.rows;
    for (const int64_t rows : file->part_rows()) {
      layout.rows += rows;
      layout.most_rows = std::max(layout.most_rows, rows);
    }
    // Facts of the first file with rows, as far as there is one.
    const bool has_rows = layout.rows > rows_before;
    if (rows_before > 0 || (!has_rows && !layout.types.empty())) continue;
    layout.types.clear();
    layout.unreadable.clear();
    for (const ColumnarField& field : file->fields()) {
      if (field.type != LeafType::kOther) {
        layout.types.push_back(field.type_text);
      } else {
        layout.unreadable.push_back(cat(in_quotes(field.name), " (", field.type_text, ")"));
      }
    }
  }
  return layout;
}

namespace {

// Opened files; those of 0 bytes are skipped. Others without rows stay, so that a row's place in
// samples does not depend on them.
std::vector<std::unique_ptr<ColumnarFile>> readable_files(
    const std::string& input, const std::vector<std::string>& paths,
    std::vector<std::unique_ptr<ColumnarFile>> files) {
  FilesWithoutRows without_rows(input);
  bool any_columns = false, any_rows = false;
  for (size_t i = 0; i < files.size(); ++i) {
    const bool has_rows = files[i] != nullptr && rows_of(*files[i]) > 0;
    any_columns |= files[i] != nullptr;
    any_rows |= has_rows;
    if (!has_rows) without_rows.add(paths[i], files[i] == nullptr ? kEmptyFile : "has no rows");
  }
  if (any_rows || !any_columns) without_rows.finish(files.size());  // else a data set of 0 rows
  std::erase(files, nullptr);
  return files;
}

}  // namespace

std::unique_ptr<Decoder> make_columnar_decoder(const DataSource& source,
                                               const std::vector<ColumnRequest>* requests) {
  const std::vector<std::string> paths = expand_inputs(source.input, source.storage);
  std::vector<std::unique_ptr<ColumnarFile>> files(paths.size());
  const auto count = static_cast<int64_t>(paths.size());
  const auto open = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      files[static_cast<size_t>(i)] =
          open_file(source.type, paths[static_cast<size_t>(i)], source.storage);
  };
  // Footers of remote files are waited for.
  const bool is_remote =
      std::any_of(paths.begin(), paths.end(), [](const auto& path) { return is_object_uri(path); });
  const int threads = is_remote
                          ? std::max(source.threads, source.storage->options().download_threads)
                          : source.threads;
  if (count > 1 && threads > 1) {
    ThreadPool pool(static_cast<int>(std::min<int64_t>(threads, count)));
    parallel_for(Context{.threads = &pool}, count, 1, open);
  } else {
    open(0, count);
  }
  return std::make_unique<ColumnarDecoder>(source, requests,
                                           readable_files(source.input, paths, std::move(files)));
}

#ifdef EMBLEM_WITH_ARROW
bool has_columnar_formats() { return true; }
#else
namespace {

[[noreturn]] void refuse(const std::string& path) {
  throw Error(ErrorCode::kUnsupported,
              cat(path, ": Parquet, ORC and Arrow files cannot be read: ", arrow_absence()));
}

}  // namespace

bool has_columnar_formats() { return false; }
std::unique_ptr<ColumnarFile> open_parquet_file(const std::string& path, const Storage&) {
  refuse(path);
}
std::unique_ptr<ColumnarFile> open_orc_file(const std::string& path, const Storage&) {
  refuse(path);
}
std::unique_ptr<ColumnarFile> open_arrow_file(const std::string& path, const Storage&) {
  refuse(path);
}
#endif

}  // namespace emblem
