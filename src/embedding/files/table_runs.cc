#include "embedding/files/table_runs.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>

#include "core/files/file.h"
#include "core/text/shallow_json.h"

namespace emblem {
namespace {

// The rows of one run, which are read once, in order.
struct Run {
  Run(const std::string& folder, int64_t dim)
      : folder(folder), keys(folder + "/key"), weights(folder + "/emb_vector"), dim(dim) {
    if (keys.bytes().size() % sizeof(int64_t) != 0)
      throw Error(ErrorCode::kCorruption,
                  cat(folder, ": key has ", keys.bytes().size(),
                      " bytes, which is not a whole number of 8-byte keys"));
    if (weights.bytes().size() != static_cast<size_t>(count() * dim) * sizeof(float))
      throw Error(ErrorCode::kCorruption,
                  cat(folder, ": emb_vector has ", weights.bytes().size(), " bytes, but ", count(),
                      " keys of dimension ", dim, " need ", count() * dim * 4));
    if (const int64_t rows = read_table_facts(folder).rows; rows != count())
      throw Error(ErrorCode::kCorruption, cat(folder, ": table.json says ", rows,
                                              " rows, but key holds ", count(), " keys"));
  }
  int64_t count() const { return static_cast<int64_t>(keys.bytes().size() / sizeof(int64_t)); }
  int64_t key() const { return reinterpret_cast<const int64_t*>(keys.bytes().data())[next]; }
  const float* row() const {
    return reinterpret_cast<const float*>(weights.bytes().data()) + next * dim;
  }

  std::string folder;
  MappedFile keys, weights;
  int64_t dim, next = 0;
};

}  // namespace

std::string run_name(int rank) {
  const std::string number = std::to_string(rank);
  return std::string(number.size() < 5 ? 5 - number.size() : 0, '0') + number;
}

bool has_runs(const std::string& folder) { return runs_of_table(folder)[0] != folder; }

std::vector<std::string> runs_of_table(const std::string& folder) {
  const auto is_run = [](const std::string& name) {
    return name.size() >= run_name(0).size() &&
           std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  std::vector<std::string> runs;
  std::error_code ignored;
  if (!std::filesystem::exists(folder + "/key", ignored)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
      if (is_run(entry.path().filename())) runs.push_back(entry.path());
  }
  std::sort(runs.begin(), runs.end());
  if (runs.empty()) runs.push_back(folder);
  return runs;
}

std::vector<WrittenFile> merge_runs(const std::string& folder, const std::string& to) {
  const std::vector<std::string> paths = runs_of_table(folder);
  const int64_t dim = read_table_facts(paths[0]).dim;
  std::vector<std::unique_ptr<Run>> runs;
  const auto later = [](const Run* a, const Run* b) { return a->key() > b->key(); };
  std::priority_queue<Run*, std::vector<Run*>, decltype(later)> next(later);
  int64_t rows = 0;
  for (const std::string& path : paths) {
    runs.push_back(std::make_unique<Run>(path, dim));
    rows += runs.back()->count();
    if (runs.back()->count() > 0) next.push(runs.back().get());
  }
  make_folders(to);
  FileWriter keys(to + "/key"), weights(to + "/emb_vector"), facts(to + "/table.json");
  std::optional<int64_t> last;
  while (!next.empty()) {
    Run* run = next.top();
    next.pop();
    const int64_t key = run->key();
    if (last && key <= *last)
      throw Error(ErrorCode::kCorruption,
                  cat(run->folder, ": key ", key,
                      key == *last ? " is a duplicate" : " is not in ascending order"));
    last = key;
    keys.write(&key, sizeof key);
    weights.write(run->row(), static_cast<size_t>(dim) * sizeof(float));
    if (++run->next < run->count()) next.push(run);
  }
  auto json = nlohmann::ordered_json::parse(read_text_file(paths[0] + "/table.json"), shallow_json);
  json["rows"] = rows;
  facts.write(json.dump(2) + "\n");
  std::vector<WrittenFile> written;
  for (auto& [name, file] : {std::pair<const char*, FileWriter*>{"key", &keys},
                             {"emb_vector", &weights},
                             {"table.json", &facts}}) {
    file->finish();
    written.push_back({name, file->bytes_written(), file->checksum()});
  }
  return written;
}

}  // namespace emblem
