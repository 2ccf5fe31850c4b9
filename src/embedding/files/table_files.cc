#include "embedding/files/table_files.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/files/file.h"
#include "core/math/finite.h"
#include "core/system/log.h"
#include "core/text/json_error.h"
#include "core/text/shallow_json.h"
#include "embedding/files/table_runs.h"

namespace emblem {
namespace {

static_assert(std::endian::native == std::endian::little,
              "table files are written as memory holds them");

constexpr int64_t kBatchBytes = 16 << 20;  // bytes of rows that are written or read at a time

const char* name_of(Eviction eviction) {
  switch (eviction) {
    case Eviction::kNone:
      return "none";
    case Eviction::kLru:
      return "lru";
    case Eviction::kLfu:
      return "lfu";
    case Eviction::kStep:
      return "step";
    case Eviction::kCustom:
      return "custom";
  }
  return "none";
}

int64_t whole_state_floats(const Table& table) {
  if (table.settings().columns.of == 0) return table.state_floats();
  return table.state_floats() / table.dim() * table.settings().row_dim();
}

std::string path_of(const std::string& folder, const char* name) { return folder + "/" + name; }

class Files {
 public:
  explicit Files(std::string folder) : folder_(std::move(folder)) {}

  FileWriter& open(const char* name) {
    names_.push_back(name);
    return *writers_.emplace_back(std::make_unique<FileWriter>(path_of(folder_, name)));
  }
  std::vector<WrittenFile> finish() {
    std::vector<WrittenFile> written;
    for (size_t i = 0; i < writers_.size(); ++i) {
      writers_[i]->finish();
      written.push_back({names_[i], writers_[i]->bytes_written(), writers_[i]->checksum()});
    }
    return written;
  }

 private:
  std::string folder_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<FileWriter>> writers_;
};

template <class T>
void write(FileWriter& file, std::span<T> values) {
  file.write(values.data(), values.size_bytes());
}

std::string facts_of(const Table& table) {
  const TableSettings& settings = table.settings();
  const nlohmann::ordered_json json = {{"name", settings.name},
                                       {"kind", table.is_static() ? "static" : "dynamic"},
                                       {"dim", settings.row_dim()},
                                       {"dtype", name_of(settings.dtype)},
                                       {"optimizer", name_of(settings.rule)},
                                       {"state_floats", whole_state_floats(table)},
                                       {"rows", table.size()},
                                       {"eviction", name_of(settings.eviction)},
                                       {"clock", table.clock()},
                                       {"next_score", table.next_score()}};
  return json.dump(2) + "\n";
}

void require_finite(const Table& table, const RowBatch& batch) {
  if (are_finite(batch.weights)) return;
  const size_t dim = batch.weights.size() / batch.keys.size();
  size_t row = 0;
  while (are_finite(batch.weights.subspan(row * dim, dim))) ++row;
  throw Error(ErrorCode::kInternal,
              cat("table ", table.settings().name, ": the row of key ", batch.keys[row],
                  " has NaN or infinite values and is not saved; training has diverged: lower the "
                  "learning rate, and continue from an earlier checkpoint"));
}

// A file of `items` items of `item_bytes` each, as T.
template <class T>
class Column {
 public:
  Column(const std::string& folder, const char* name, int64_t items, int64_t item_floats,
         const std::string& need)
      : file_(path_of(folder, name)), each_(item_floats) {
    const uint64_t wanted = static_cast<uint64_t>(items * item_floats) * sizeof(T);
    if (file_.bytes().size() == wanted) return;
    throw Error(ErrorCode::kCorruption, cat(folder, ": ", name, " has ", file_.bytes().size(),
                                            " bytes, but ", need, " need ", wanted));
  }
  std::span<const T> rows(int64_t begin, int64_t count) const {
    return {reinterpret_cast<const T*>(file_.bytes().data()) + begin * each_,
            static_cast<size_t>(count * each_)};
  }
  std::span<const T> all() const {
    return {reinterpret_cast<const T*>(file_.bytes().data()), file_.bytes().size() / sizeof(T)};
  }

 private:
  MappedFile file_;
  int64_t each_;
};

int64_t key_count(const std::string& folder) {
  const MappedFile file(path_of(folder, "key"));
  if (file.bytes().size() % sizeof(int64_t) == 0)
    return static_cast<int64_t>(file.bytes().size() / sizeof(int64_t));
  throw Error(ErrorCode::kCorruption, cat(folder, ": key has ", file.bytes().size(),
                                          " bytes, which is not a whole number of 8-byte keys"));
}

void check_match(const std::string& folder, const TableFacts& facts, const Table& table) {
  const TableSettings& settings = table.settings();
  const std::string kind = table.is_static() ? "static" : "dynamic";
  EMBLEM_REQUIRE(facts.dim == settings.row_dim(), folder, ": the saved table has dimension ",
                 facts.dim, ", but table ", settings.name, " has ", settings.row_dim());
  EMBLEM_REQUIRE(facts.kind == kind, folder, ": the saved table is ", facts.kind, ", but table ",
                 settings.name, " is ", kind);
  EMBLEM_REQUIRE(facts.optimizer == name_of(settings.rule), folder,
                 ": the saved table was trained with ", facts.optimizer, ", but table ",
                 settings.name, " uses ", name_of(settings.rule),
                 ": load its weights only, or keep the optimizer");
}

// A static table needs all rows of the saved one.
void check_rows(const std::string& folder, int64_t rows, const Table& table) {
  const TableSettings& settings = table.settings();
  EMBLEM_REQUIRE(!table.is_static() || rows == settings.capacity, folder, ": the saved table has ",
                 rows, " rows, but table ", settings.name, " has ", settings.capacity);
}

// What the table holds of the rows of a file: the keys of some parts, some columns.
class HeldRows {
 public:
  explicit HeldRows(const Table& table) : table_(table) {}

  RowBatch of(const RowBatch& batch) {
    const TableSettings& settings = table_.settings();
    if (settings.held.is_everything() && settings.columns.of == 0) return batch;
    const auto dim = static_cast<size_t>(settings.row_dim());
    const auto first = static_cast<size_t>(settings.columns.first);
    const auto columns = static_cast<size_t>(table_.dim());
    const auto state_floats = static_cast<size_t>(whole_state_floats(table_));
    const bool is_whole = columns == dim;
    keys_.clear();
    weights_.clear();
    states_.clear();
    scores_.clear();
    for (size_t i = 0; i < batch.keys.size(); ++i) {
      if (!holds(batch.keys[i])) continue;
      keys_.push_back(batch.keys[i]);
      append(batch.weights, i * dim + first, columns, weights_);
      if (is_whole) append(batch.states, i * state_floats, state_floats, states_);
      for (size_t plane = 0; !is_whole && plane < state_floats; plane += dim)
        append(batch.states, i * state_floats + plane + first, columns, states_);
      append(batch.scores, i, 1, scores_);
    }
    return {keys_, weights_, states_, scores_};
  }
  bool holds(int64_t key) const {
    return table_.settings().held.contains(table_.is_static() ? part_of_static_key(key)
                                                              : part_of_hashed_key(key));
  }

 private:
  template <class T>
  static void append(std::span<const T> from, size_t begin, size_t count, std::vector<T>& to) {
    if (!from.empty()) to.insert(to.end(), from.begin() + begin, from.begin() + begin + count);
  }

  const Table& table_;
  std::vector<int64_t> keys_, scores_;
  std::vector<float> weights_, states_;
};

// The rows of a run, in files whose sizes fit the table.
struct RunRows {
  RunRows(const std::string& folder, LoadMode mode, const Table& table)
      : count(key_count(folder)),
        keys(folder, "key", count, 1, ""),
        weights(folder, "emb_vector", count, table.settings().row_dim(),
                cat(count, " keys of dimension ", table.settings().row_dim())) {
    const int64_t state_floats = whole_state_floats(table);
    if (mode == LoadMode::kContinue && state_floats > 0)
      states.emplace(folder, "state", count, state_floats,
                     cat(count, " keys with ", state_floats, " floats of state"));
    if (mode == LoadMode::kContinue && !table.is_static())
      scores.emplace(folder, "score", count, 1, cat(count, " scores"));
  }

  RowBatch batch(int64_t begin, int64_t n) const {
    return {keys.rows(begin, n), weights.rows(begin, n),
            states ? states->rows(begin, n) : std::span<const float>(),
            scores ? scores->rows(begin, n) : std::span<const int64_t>()};
  }

  int64_t count;
  Column<int64_t> keys;
  Column<float> weights;
  std::optional<Column<float>> states;
  std::optional<Column<int64_t>> scores;
};

constexpr int64_t kNoScore = INT64_MIN;  // tables mark free rows with it

void check_static_keys(const RunRows& run, const TableSettings& settings) {
  for (const int64_t key : run.keys.all())
    if (key < 0 || key >= settings.capacity)
      refuse_static_key(settings.name, settings.capacity, key);
}

void check_scores(const std::string& folder, const RunRows& run) {
  if (!run.scores) return;
  const auto scores = run.scores->all();
  const auto at = std::ranges::find(scores, kNoScore);
  if (at == scores.end()) return;
  throw Error(ErrorCode::kCorruption,
              cat(folder, ": score holds ", kNoScore, " for key ",
                  run.keys.all()[at - scores.begin()], ", which is not a score"));
}

int64_t count_held(std::span<const RunRows> runs, const Table& table) {
  const HeldRows held(table);
  int64_t count = 0;
  for (const RunRows& run : runs)
    count +=
        table.settings().held.is_everything()
            ? run.count
            : std::ranges::count_if(run.keys.all(), [&](int64_t key) { return held.holds(key); });
  return count;
}

// The keys of all runs that the table holds.
std::vector<int64_t> keys_held(std::span<const RunRows> runs, const Table& table) {
  const HeldRows held(table);
  std::vector<int64_t> keys;
  for (const RunRows& run : runs)
    std::ranges::copy_if(run.keys.all(), std::back_inserter(keys),
                         [&](int64_t key) { return held.holds(key); });
  return keys;
}

bool is_ascending(const RunRows& run) {
  const auto keys = run.keys.all();
  return std::ranges::adjacent_find(keys, std::greater_equal<>()) == keys.end();
}

// Whether there is room for the rows, and in kContinue whether each key is there once. Keys of one
// run are in order, and runs have different ones: then they are not sorted.
void check_dynamic_keys(const std::string& folder, std::span<const RunRows> runs, LoadMode mode,
                        const Table& table) {
  const TableSettings& settings = table.settings();
  const bool evicts_in_bins = settings.bins > 0 && settings.eviction != Eviction::kNone;
  const int64_t most = settings.capacity > 0 && !evicts_in_bins ? settings.capacity : INT64_MAX;
  const bool are_different =
      mode == LoadMode::kWeightsOnly || std::ranges::all_of(runs, is_ascending);
  if (are_different && (most == INT64_MAX || count_held(runs, table) <= most)) return;
  std::vector<int64_t> keys = keys_held(runs, table);
  const size_t held = keys.size();
  std::ranges::sort(keys);
  keys.erase(std::ranges::unique(keys).begin(), keys.end());
  if (mode == LoadMode::kContinue && keys.size() != held)
    throw Error(ErrorCode::kCorruption,
                cat(folder, ": table.json says ", held, " rows, but key holds ", keys.size(),
                    " different keys"));
  EMBLEM_REQUIRE(static_cast<int64_t>(keys.size()) <= most, folder, ": the saved table has ",
                 keys.size(), " rows, but the capacity of table ", settings.name, " is ", most,
                 "; raise it");
}

// Imports the rows that the table holds. How many these are.
int64_t load_rows(const Context& context, const RunRows& run, Table& table) {
  int64_t loaded = 0;
  HeldRows held(table);
  for (int64_t begin = 0, each = rows_per_batch(table); begin < run.count; begin += each) {
    const RowBatch rows = held.of(run.batch(begin, std::min(each, run.count - begin)));
    if (!rows.keys.empty()) table.import_rows(context, rows);
    loaded += static_cast<int64_t>(rows.keys.size());
  }
  return loaded;
}

// A table that was saved without bins, or with a larger capacity, may have too many for some of
// them.
void warn_of_dropped_rows(int64_t held, const Table& table) {
  if (table.settings().bins == 0 || table.size() >= held) return;
  log_warn(cat("table ", table.settings().name, ": ", held - table.size(), " of ", held,
               " rows were evicted while it was read: several ranks evict in ",
               table.settings().bins, " bins by key, some of which had more than their share"));
}

void add_admission(const std::string& folder, const Table& table, std::vector<KeyCount>& counts) {
  const std::string path = path_of(folder, "admission");
  if (!std::filesystem::exists(path)) return;
  const MappedFile file(path);
  if (file.bytes().size() % sizeof(KeyCount) != 0) {
    throw Error(ErrorCode::kCorruption,
                cat(folder, ": admission has ", file.bytes().size(),
                    " bytes, which is not a whole number of 16-byte pairs"));
  }
  const HeldRows held(table);
  const std::span all(reinterpret_cast<const KeyCount*>(file.bytes().data()),
                      file.bytes().size() / sizeof(KeyCount));
  for (const auto& [key, count] : all)
    if (count <= 0)
      throw Error(ErrorCode::kCorruption, cat(folder, ": admission holds the count ", count,
                                              " of key ", key, ", but counts begin at 1"));
  std::copy_if(all.begin(), all.end(), std::back_inserter(counts),
               [&](const KeyCount& each) { return held.holds(each.key); });
}

}  // namespace

int64_t rows_per_batch(const Table& table) {
  const int64_t floats = table.settings().row_dim() + whole_state_floats(table);
  return std::max<int64_t>(1, kBatchBytes / (floats * 4 + 16));
}

std::vector<WrittenFile> save_table(const Context& context, const Table& table,
                                    const std::string& folder) {
  return save_table(
      table,
      [&](int64_t batch_rows, const std::function<void(const RowBatch&)>& take) {
        table.export_rows(context, batch_rows, take);
      },
      folder);
}

std::vector<WrittenFile> save_table(const Table& table, const ExportRows& rows,
                                    const std::string& folder) {
  make_folders(folder);
  Files files(folder);
  FileWriter& keys = files.open("key");
  FileWriter& weights = files.open("emb_vector");
  FileWriter* states = table.state_floats() > 0 ? &files.open("state") : nullptr;
  FileWriter* scores = table.is_static() ? nullptr : &files.open("score");
  rows(rows_per_batch(table), [&](const RowBatch& batch) {
    require_finite(table, batch);
    write(keys, batch.keys);
    write(weights, batch.weights);
    if (states != nullptr) write(*states, batch.states);
    if (scores != nullptr) write(*scores, batch.scores);
  });
  if (const auto counts = table.export_admission(); !counts.empty()) {
    write(files.open("admission"), std::span(counts));
  }
  files.open("table.json").write(facts_of(table));
  return files.finish();
}

TableFacts read_table_facts(const std::string& folder) {
  const std::string path = path_of(folder, "table.json");
  try {
    const auto json = nlohmann::json::parse(read_text_file(path), shallow_json);
    return {.name = json.at("name"),
            .dim = json.at("dim"),
            .dtype = json.at("dtype"),
            .kind = json.at("kind"),
            .optimizer = json.at("optimizer"),
            .state_floats = json.at("state_floats"),
            .rows = json.at("rows"),
            .eviction = json.at("eviction"),
            .clock = json.at("clock"),
            .next_score = json.at("next_score")};
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kCorruption,
                cat(path, ": does not describe a table: ", json_problem(error.what())));
  }
}

struct TableFiles::State {
  State(const std::string& from, LoadMode how, const Table& table) : folder(from), mode(how) {
    for (const std::string& run : runs_of_table(folder)) add(run, table);
    const TableSettings& settings = table.settings();
    if (mode == LoadMode::kContinue) check_rows(folder, rows, table);
    if (table.is_static())
      for (const RunRows& run : runs) check_static_keys(run, settings);
    else
      check_dynamic_keys(folder, runs, mode, table);
    if (settings.eviction == Eviction::kCustom && facts.next_score == kNoScore)
      throw Error(ErrorCode::kCorruption,
                  cat(folder, ": next_score in table.json is ", kNoScore, ", not a score"));
    std::sort(admission.begin(), admission.end(),
              [](const KeyCount& a, const KeyCount& b) { return a.key < b.key; });
  }

  void add(const std::string& run, const Table& table) {
    if (mode == LoadMode::kContinue) {
      facts = read_table_facts(run);
      check_match(run, facts, table);
      if (!has_runs(folder)) check_rows(folder, facts.rows, table);
    }
    const RunRows& opened = runs.emplace_back(run, mode, table);
    rows += opened.count;
    if (mode == LoadMode::kWeightsOnly) return;
    EMBLEM_REQUIRE(opened.count == facts.rows, run, ": table.json says ", facts.rows,
                   " rows, but key holds ", opened.count, " keys");
    check_scores(run, opened);
    add_admission(run, table, admission);
  }

  const std::string folder;
  const LoadMode mode;
  std::vector<RunRows> runs;
  TableFacts facts;  // of the last run
  std::vector<KeyCount> admission;
  int64_t rows = 0;
};

TableFiles::TableFiles(const std::string& folder, LoadMode mode, const Table& table)
    : state_(std::make_unique<const State>(folder, mode, table)) {}
TableFiles::~TableFiles() = default;

void TableFiles::load(const Context& context, Table& table) const {
  const auto& [folder, mode, runs, facts, admission, rows] = *state_;
  table.clear();
  int64_t held = 0;
  for (const RunRows& run : runs) held += load_rows(context, run, table);
  if (mode == LoadMode::kWeightsOnly) return warn_of_dropped_rows(held, table);
  const TableSettings& settings = table.settings();
  EMBLEM_REQUIRE(!settings.held.is_everything() || settings.bins > 0 || table.size() == rows,
                 folder, ": table.json says ", rows, " rows, but key holds ", table.size(),
                 " different keys");
  warn_of_dropped_rows(held, table);
  if (!admission.empty()) table.import_admission(admission);
  table.set_clock(facts.clock);
  if (settings.eviction == Eviction::kCustom) table.set_next_score(facts.next_score);
}

void load_table(const Context& context, const std::string& folder, LoadMode mode, Table& table) {
  TableFiles(folder, mode, table).load(context, table);
}

}  // namespace emblem
