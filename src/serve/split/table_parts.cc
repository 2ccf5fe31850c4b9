#include "serve/split/table_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/system/log.h"
#include "ps/tables/table_fetch.h"

namespace emblem {
namespace {

constexpr const char* kDescriptions =
    "# HELP emblem_table_parts Parts of all tables that this server holds\n"
    "# TYPE emblem_table_parts gauge\n"
    "# HELP emblem_table_versions_held Versions of models whose rows this server holds\n"
    "# TYPE emblem_table_versions_held gauge\n"
    "# HELP emblem_row_requests_total Requests of front ends for rows\n"
    "# TYPE emblem_row_requests_total counter\n"
    "# HELP emblem_row_requests_refused_total Requests for rows that were refused\n"
    "# TYPE emblem_row_requests_refused_total counter\n"
    "# HELP emblem_row_keys_total Keys of requests for rows\n"
    "# TYPE emblem_row_keys_total counter\n";

// Limit of a request for the status, which is read on the thread of its connection; front ends
// use a few versions.
constexpr size_t kMostStatusBytes = 1 << 20;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void check_table(const RowRequest::Table& asked, const ServedTable& table) {
  EMBLEM_REQUIRE(asked.dim == table.dim(), "rows of dimension ", asked.dim, " of table ",
                 asked.name, " are requested, but it has dimension ", table.dim());
  const PartFilter& filter = table.settings().filter;
  for (const int64_t key : asked.keys) {
    EMBLEM_REQUIRE(filter.takes(key), "a key of part ", filter.part_of(key), " of table ",
                   asked.name, " is requested, but this table server holds parts ",
                   to_string(filter.parts));
  }
}

}  // namespace

TableParts::TableParts(TablePartsOptions options)
    : options_(options),
      dropping_("dropping old versions", {{"tables", 0.0, 0.2}},
                [this](const std::string&) { drop_unused(); }) {}

std::shared_ptr<const void> TableParts::hold(const ModelId& id,
                                             std::shared_ptr<ServedModel> model) {
  {
    std::lock_guard lock(mutex_);
    Version& version = versions_[id];
    version.model = std::move(model);
    ++version.holders;
  }
  return {this, [id](TableParts* self) { self->release(id); }};
}

void TableParts::release(const ModelId& id) {
  std::lock_guard lock(mutex_);
  Version& version = versions_.at(id);
  --version.holders;
  version.used = Clock::now();
}

bool TableParts::has(const std::string& model) const {
  std::lock_guard lock(mutex_);
  return std::any_of(versions_.begin(), versions_.end(),
                     [&](const auto& version) { return version.first.model == model; });
}

std::vector<ModelId> TableParts::held() const {
  std::vector<ModelId> ids;
  std::lock_guard lock(mutex_);
  for (const auto& [id, version] : versions_) ids.push_back(id);
  return ids;
}

void TableParts::drop_unused() {
  std::vector<std::shared_ptr<ServedModel>> dropped;  // freed after the lock is released
  std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  for (auto at = versions_.begin(); at != versions_.end();) {
    const bool is_needed = at->second.holders > 0 || now - at->second.used < options_.keep;
    if (is_needed) {
      ++at;
      continue;
    }
    log_info(cat(at->first.text(), ": its rows are dropped; no front end uses it"));
    dropped.push_back(std::move(at->second.model));
    at = versions_.erase(at);
  }
}

std::shared_ptr<ServedModel> TableParts::find(const ModelId& id) const {
  std::string known;
  std::lock_guard lock(mutex_);
  for (const auto& [held, version] : versions_) {
    if (held == id) return version.model;
    if (held.model == id.model) known += cat(known.empty() ? "" : ", ", held.version);
    if (held.model == id.model && held.version == id.version) known += " (with other files)";
  }
  throw Error(ErrorCode::kNotFound,
              cat(id.text(), " is not on this table server; ",
                  known.empty() ? "it has no version of the model" : "it has version " + known));
}

std::vector<std::byte> TableParts::answer(const RowRequest& request,
                                          MemoryBudget::Lease& lease) const {
  const std::shared_ptr<ServedModel> model = find(request.model);
  EMBLEM_REQUIRE(answer_bytes(request) <= options_.max_answer_bytes, "the rows would have ",
                 answer_bytes(request), " bytes, but an answer may have up to ",
                 options_.max_answer_bytes, "; send smaller requests or raise --max-response-size");
  lease.grow(answer_bytes(request));
  std::vector<ServedTable*> tables;
  for (const RowRequest::Table& asked : request.tables) {
    tables.push_back(&model->table(asked.name));
    check_table(asked, *tables.back());
  }
  return make_answer(request, [&](size_t t, std::span<float> rows, std::span<uint8_t> found) {
    const TableFetch fetch{tables[t], request.tables[t].keys, rows, found};
    fetch_tables({&fetch, 1});
    const auto missing = std::count(found.begin(), found.end(), uint8_t{0});
    tables[t]->count_missing(0, static_cast<uint64_t>(missing));
  });
}

std::vector<std::byte> TableParts::rows(std::span<const std::byte> bytes,
                                        MemoryBudget::Lease& lease) {
  requests_.fetch_add(1, std::memory_order_relaxed);
  try {
    const size_t before = lease.bytes();
    lease.grow(most_decoded_bytes(bytes.size()));
    const RowRequest request = decode_row_request(text_of(bytes));
    size_t keys = 0;
    for (const RowRequest::Table& table : request.tables) keys += table.keys.size();
    keys_.fetch_add(keys, std::memory_order_relaxed);
    std::vector<std::byte> rows = answer(request, lease);
    lease.shrink(lease.bytes() - before - rows.size());
    return rows;
  } catch (const Error&) {
    refusals_.fetch_add(1, std::memory_order_relaxed);
    throw;
  }
}

std::string TableParts::status(std::span<const std::byte> bytes) {
  EMBLEM_REQUIRE(bytes.size() <= kMostStatusBytes, "a request for the status of ", bytes.size(),
                 " bytes; expected at most ", kMostStatusBytes);
  const StatusRequest request = decode_status_request(text_of(bytes));
  StatusAnswer answer{options_.parts, options_.row_type, {}};
  std::lock_guard lock(mutex_);
  for (const ModelId& id : request.in_use) {
    const auto version = versions_.find(id);
    if (version != versions_.end()) version->second.used = Clock::now();
  }
  for (const auto& [id, version] : versions_) answer.models.push_back(id);
  return encode(answer);
}

std::string TableParts::metrics() const {
  std::string text = kDescriptions;
  const auto add = [&](const char* name, auto value) {
    text += fmt::format("{} {}\n", name, value);
  };
  add("emblem_table_parts", options_.parts.count());
  add("emblem_table_versions_held", held().size());
  add("emblem_row_requests_total", requests_.load(std::memory_order_relaxed));
  add("emblem_row_requests_refused_total", refusals_.load(std::memory_order_relaxed));
  add("emblem_row_keys_total", keys_.load(std::memory_order_relaxed));
  return text;
}

}  // namespace emblem
