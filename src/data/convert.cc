#include "data/convert.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/files/file.h"
#include "core/system/log.h"
#include "core/system/progress.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "data/converted.h"
#include "data/format/columnar/columnar_decoder.h"
#include "data/source/uri.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

// Blocks read before they are encoded side by side.
constexpr size_t kBlocksAtOnce = 8;

config::DatasetType parse_readable_format(const std::string& name) {
  struct Format {
    const char* name;
    config::DatasetType type;
  };
  constexpr Format kFormats[] = {
      {"tsv", config::CriteoTsvDataset}, {"csv", config::CsvDataset},
      {"raw", config::RawDataset},       {"split", config::SplitDataset},
      {"libfm", config::LibfmDataset},   {"parquet", config::ParquetDataset},
      {"orc", config::OrcDataset},       {"arrow", config::ArrowDataset}};
  std::string choices;
  for (const Format& format : kFormats) {
    if (name == format.name) return format.type;
    choices += (choices.empty() ? "" : ", ") + std::string(format.name);
  }
  throw Error(ErrorCode::kInvalidArgument,
              cat("unknown input format '", name, "'; expected one of ", choices));
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

// The output must not replace files that are read, nor appear among them.
void refuse_input_as_output(const std::string& inputs, const std::string& to) {
  fs::path target = fs::weakly_canonical(fs::absolute(to));
  if (!target.has_filename()) target = target.parent_path();  // "folder/"
  for (const std::string& item : split(inputs, ',')) {
    const std::string input(trim(item));
    if (input.empty() || is_object_uri(input)) continue;
    if (fs::is_directory(input)) {
      const fs::path folder = fs::canonical(input);
      EMBLEM_REQUIRE(!is_inside(target, folder), "--to ", to, " is ",
                     target == folder ? "also" : "inside", " the input folder ", input,
                     "; give a folder outside of it");
    }
    for (const std::string& file : expand_paths(input))
      EMBLEM_REQUIRE(!is_inside(fs::canonical(file), target), "--to ", to, " holds the input ",
                     file, ", which would be replaced; give another folder");
  }
}

// The others hold numbers of 32 bits.
bool keeps_values(const std::string& format) {
  return format == "csv" || format == "parquet" || format == "orc" || format == "arrow";
}

void warn_of_unreadable(const DataSource& from) {
  const std::optional<ColumnarLayout> layout = columnar_layout(from);
  if (!layout || layout->unreadable.empty()) return;
  log_warn(cat("columns of types that cannot be read are skipped: ", joined(layout->unreadable)));
}

// Which lists are sequences is known to a pipeline only.
void tell_of_lists(const std::vector<ColumnSpec>& schema, const WriterOptions& writing) {
  std::string names;
  for (const ColumnSpec& column : schema) {
    const auto& sequences = writing.sequences;
    if (column.lists != 1 || std::ranges::find(sequences, column.name) != sequences.end()) continue;
    names += cat(names.empty() ? "" : ", ", printable(column.name));
  }
  if (names.empty()) return;
  log_info(cat("lists are written with ", in_quotes(std::string_view(&writing.separator, 1)),
               " between their values, which features read as bags (", names,
               "); --sequences NAME,... writes those of sequences with ",
               in_quotes(writing.sequence_delim)));
}

}  // namespace

DataSource describe_input(const std::string& path, const InputHints& hints) {
  DataSource source;
  source.input = path;
  source.storage = hints.storage;
  if (hints.format.empty()) {
    source = guess_source(path, {}, hints.storage);
  } else {
    source.type = parse_readable_format(hints.format);
    if (source.type == config::CsvDataset &&
        guess_format(path, hints.storage) == config::CsvDataset)
      source = guess_source(path, {}, hints.storage);
  }
  if (!hints.delimiter.empty())
    source.delimiter = hints.delimiter == "\\t" ? "\t" : hints.delimiter;
  if (hints.with_header) {
    source.with_header = true;
    source.fields.clear();
  }
  source.num_dense = hints.num_dense;
  source.num_sparse = hints.num_sparse;
  source.max_bad_rows = hints.max_bad_rows;
  return source;
}

ConvertResult convert(const Context& context, const ConvertOptions& options) {
  DataSource from = options.from;
  if (keeps_values(options.format)) from.natural = NaturalTypes::kExact;
  const std::unique_ptr<BlockReader> reader = open_reader(from);
  refuse_input_as_output(options.from.input, options.to);
  const std::unique_ptr<RowWriter> writer =
      make_writer(options.format, options.to, reader->schema(), options.writing);
  warn_of_unreadable(from);
  if (options.format == "csv") tell_of_lists(reader->schema(), options.writing);
  Progress progress("convert", reader->total_bytes(), "bytes");
  progress.update(0);
  std::vector<Block> blocks(kBlocksAtOnce);
  std::vector<EncodedRows> encoded(kBlocksAtOnce);
  std::vector<int64_t> first_rows(kBlocksAtOnce);
  for (bool more = true; more;) {
    size_t count = 0;
    int64_t row = writer->rows_written();
    while (count < kBlocksAtOnce && (more = reader->next(blocks[count]))) {
      first_rows[count] = row;
      row += blocks[count++].rows;
    }
    parallel_for(context, static_cast<int64_t>(count), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) writer->encode(blocks[i], first_rows[i], encoded[i]);
    });
    for (size_t i = 0; i < count; ++i) writer->append(encoded[i]);
    progress.update(reader->bytes_read());
  }
  writer->finish();
  progress.finish();
  if (options.writing.bundle_bytes > 0) write_bundle_index(options.to, *reader);
  return {writer->rows_written(), reader->bad_rows(), reader->bytes_read(),
          writer->bytes_written()};
}

}  // namespace emblem
