#include "serve/engine/retrieval/stored_columns.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/files/file.h"
#include "core/text/shallow_json.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "serve/protocol/tensor.h"

namespace emblem {
namespace {

using Json = nlohmann::json;

constexpr const char *kNameFile = "name.json", *kIdFile = "id", *kEndFile = "end",
                     *kTextFile = "text";

void check_names(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    EMBLEM_REQUIRE(std::ranges::count(names, names[i]) == 1, "column \"", printable(names[i]),
                   "\" is stored twice with the items; name it once");
    for (const char* input : {"ids", "vectors", "attributes"})
      EMBLEM_REQUIRE(names[i] != input, "a column \"", input,
                     "\" cannot be stored with the items: requests that change items have an input "
                     "of this name; rename the column");
  }
}

[[noreturn]] void damaged(const std::string& folder, const char* file, const std::string& how) {
  throw Error(ErrorCode::kCorruption,
              cat("columns of items ", folder, " are damaged: file ", file, " ", how));
}

void write_file(const std::string& path, const void* data, size_t bytes) {
  FileWriter file(path);
  file.write(data, bytes);
  file.finish();
}

std::vector<int64_t> read_numbers(const std::string& folder, const char* file) {
  const MappedFile from(folder + "/" + file);
  const size_t bytes = from.bytes().size();
  if (bytes % sizeof(int64_t) != 0)
    damaged(folder, file, cat("has ", bytes, " bytes, which are not whole numbers of 64 bits"));
  std::vector<int64_t> numbers(bytes / sizeof(int64_t));
  std::copy_n(from.bytes().data(), bytes, reinterpret_cast<char*>(numbers.data()));
  return numbers;
}

// Whether it is `count` BYTES elements.
bool has_elements(std::string_view text, size_t count) {
  for (; count > 0; --count) {
    uint32_t length = 0;
    if (text.size() < sizeof length) return false;
    std::memcpy(&length, text.data(), sizeof length);
    text.remove_prefix(sizeof length);
    if (text.size() < length) return false;
    text.remove_prefix(length);
  }
  return text.empty();
}

}  // namespace

void append_element(std::string_view text, std::string& to) {
  EMBLEM_REQUIRE(text.size() <= std::numeric_limits<uint32_t>::max(), "a text has ", text.size(),
                 " bytes, which is too long");
  const auto length = static_cast<uint32_t>(text.size());
  to.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
}

StoredColumns::StoredColumns(std::vector<std::string> names, std::span<const int64_t> ids,
                             std::span<const std::string> values)
    : names_(std::move(names)) {
  check_names(names_);
  const size_t width = names_.size();
  EMBLEM_REQUIRE(values.size() == ids.size() * width, "there are ", values.size(), " texts for ",
                 ids.size(), " items with ", width, " columns");
  std::vector<size_t> order(ids.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t at) { return ids[at]; });
  for (const size_t at : order) {
    ids_.push_back(ids[at]);
    for (const std::string& value : values.subspan(at * width, width))
      append_element(value, texts_);
    ends_.push_back(std::ssize(texts_));
  }
}

void StoredColumns::save(const std::string& folder) const {
  make_folders(folder);
  write_text_file_atomically(folder + "/" + kNameFile, Json(names_).dump() + "\n");
  write_file(folder + "/" + kIdFile, ids_.data(), ids_.size() * sizeof(int64_t));
  write_file(folder + "/" + kEndFile, ends_.data(), ends_.size() * sizeof(int64_t));
  write_file(folder + "/" + kTextFile, texts_.data(), texts_.size());
}

std::vector<std::string> StoredColumns::load_names(const std::string& folder) {
  const Json names = Json::parse(read_text_file(folder + "/" + kNameFile), shallow_json,
                                 /*allow_exceptions=*/false);
  const auto is_name = [](const Json& name) { return name.is_string(); };
  if (!names.is_array() || !std::ranges::all_of(names, is_name))
    damaged(folder, kNameFile, "is not a list of names");
  return names.get<std::vector<std::string>>();
}

std::unique_ptr<StoredColumns> StoredColumns::load(const std::string& folder) {
  auto columns = std::make_unique<StoredColumns>();
  columns->names_ = load_names(folder);
  check_names(columns->names_);
  columns->ids_ = read_numbers(folder, kIdFile);
  columns->ends_ = read_numbers(folder, kEndFile);
  const MappedFile texts(folder + "/" + kTextFile);
  columns->texts_.assign(texts.bytes().data(), texts.bytes().size());
  const std::vector<int64_t>&ids = columns->ids_, &ends = columns->ends_;
  if (std::ranges::adjacent_find(ids, std::greater_equal()) != ids.end())
    damaged(folder, kIdFile, "has ids that do not ascend");
  if (ends.size() != ids.size())
    damaged(folder, kEndFile, cat("has ", ends.size(), " numbers for ", ids.size(), " items"));
  int64_t begin = 0;
  for (const int64_t end : ends) {
    if (end < begin || end > std::ssize(columns->texts_))
      damaged(folder, kEndFile, cat("has an end at ", end));
    if (!has_elements(std::string_view(columns->texts_).substr(begin, end - begin),
                      columns->names_.size()))
      damaged(folder, kTextFile, cat("has no texts of columns at byte ", begin));
    begin = end;
  }
  if (begin != std::ssize(columns->texts_)) damaged(folder, kTextFile, "has bytes of no item");
  return columns;
}

void StoredColumns::put(int64_t change, std::span<const int64_t> ids,
                        std::vector<std::string> texts) {
  const std::unique_lock lock(mutex_);
  for (size_t i = 0; i < ids.size(); ++i)
    put_[ids[i]].push_back({change, std::make_unique<const std::string>(std::move(texts[i]))});
}

void StoredColumns::drop(int64_t change, std::span<const int64_t> ids) {
  const std::unique_lock lock(mutex_);
  for (const int64_t id : ids) {
    const auto found = put_.find(id);
    if (found == put_.end()) continue;
    std::erase_if(found->second, [&](const Put& one) { return one.change == change; });
    if (found->second.empty()) put_.erase(found);
  }
}

std::string_view StoredColumns::saved(int64_t id) const {
  const auto at = std::ranges::lower_bound(ids_, id);
  if (at == ids_.end() || *at != id)
    throw Error(ErrorCode::kCorruption, cat("item ", id, " has no columns stored with it"));
  const auto i = static_cast<size_t>(at - ids_.begin());
  const int64_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(texts_).substr(begin, ends_[i] - begin);
}

std::vector<std::string_view> StoredColumns::find(std::span<const int64_t> ids,
                                                  int64_t change) const {
  if (names_.empty()) return std::vector<std::string_view>(ids.size());
  std::vector<std::string_view> texts;
  texts.reserve(ids.size());
  const std::shared_lock lock(mutex_);
  for (const int64_t id : ids) {
    const std::string* last = nullptr;
    if (const auto found = put_.find(id); found != put_.end())
      for (const Put& one : found->second)
        if (one.change <= change) last = one.text.get();
    texts.push_back(last != nullptr ? std::string_view(*last) : saved(id));
  }
  return texts;
}

}  // namespace emblem
