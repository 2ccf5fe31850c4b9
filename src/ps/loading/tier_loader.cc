#include "ps/loading/tier_loader.h"

#include <algorithm>

#include "core/system/log.h"
#include "core/threads/thread_pool.h"
#include "ps/config/sparse_folder.h"
#include "ps/tables/database_notes.h"
#include "store/memory_store.h"

namespace emblem {
namespace {

// Calls body(i) for all, several at a time.
template <class Body>
void for_each_table(size_t count, Body&& body) {
  ThreadPool threads(std::clamp(static_cast<int>(count), 1, available_cpus()));
  parallel_for({.threads = &threads}, static_cast<int64_t>(count), 1,
               [&](int64_t i, int64_t) { body(static_cast<size_t>(i)); });
}

// Rows in a table's files that are beyond the margins of the partitions of `l2`.
uint64_t rows_beyond(const KvTable& l2, uint64_t margin, const TableSource& source) {
  std::vector<uint64_t> rows(l2.partitions());
  SparseFolder(source.folder, source.dim)
      .read([&](std::span<const int64_t> keys, std::span<const float>) {
        for (const int64_t key : keys) ++rows[l2.partition_of(key)];
      });
  uint64_t beyond = 0;
  for (const uint64_t count : rows) beyond += count > margin ? count - margin : 0;
  return beyond;
}

}  // namespace

struct TierLoader::Loading {
  const TableSource& source;
  std::string name;     // in databases
  std::string content;  // content of the files
  std::shared_ptr<KvTable> l3 = nullptr, l2 = nullptr;
  std::shared_ptr<PartitionedTable> redis = nullptr;  // L2, where it is there
  bool l3_is_newer = false;                           // than the files: it was not filled now
  uint64_t refused = 0;                               // rows that are NaN or infinite

  RowSource rows() const { return {source.folder, l3_is_newer ? l3 : nullptr, source.filter}; }
};

void TierLoader::load(const std::shared_ptr<ServedModel>& model,
                      std::span<const TableSource> sources, int64_t updates_included,
                      Tables shared) {
  std::vector<Loading> tables = prepare(*model, sources);
  if (databases_.rocksdb != nullptr) fill_l3(model->name(), tables, updates_included, shared);
  if (config_.volatile_db.type == PsVolatile::Type::kHashMap) fill_memory(tables);
  if (redis_ != nullptr) {
    for (Loading& table : tables)
      table.l2 = table.redis = databases_.redis->open_parts(table.name, table.source.dim);
    check_overflow(tables);
  }
  ServedModel::Tables served;
  for (const Loading& table : tables) served[table.source.name] = serve(table);
  model->set_tables(std::move(served));
  if (redis_ != nullptr) fill_redis(model, tables, updates_included);
  model->set_sequence(sequence_of(model->name(), updates_included));
}

std::vector<TierLoader::Loading> TierLoader::prepare(const ServedModel& model,
                                                     std::span<const TableSource> sources) const {
  std::vector<Loading> tables;
  for (const TableSource& source : sources) {
    const SparseFolder folder(source.folder, source.dim);
    const std::string content = source.content.empty() ? folder.fingerprint() : source.content;
    tables.push_back({.source = source,
                      .name = served_table_name(model.name(), source.name),
                      .content = cat("version ", model.version(), " ", content)});
    const auto same = std::count_if(tables.begin(), tables.end(), [&](const Loading& other) {
      return other.source.name == source.name;
    });
    EMBLEM_REQUIRE(same == 1, "model ", model.name(), ": duplicate table ", source.name);
  }
  return tables;
}

void TierLoader::fill_l3(const std::string& model, std::vector<Loading>& tables,
                         int64_t updates_included, Tables shared) {
  KvStore& rocksdb = *databases_.rocksdb;
  std::lock_guard changing(databases_.changing);
  bool any = false;
  for (Loading& table : tables) {
    table.l3_is_newer =
        databases_.read_only || rocksdb.note(content_note(table.name)) == table.content;
    any = any || !table.l3_is_newer;
  }
  // Noted before rows are written, so that no delta is taken for applied should this process die.
  if (!databases_.read_only && (any || !delta_sequence(rocksdb, model)))
    set_delta_sequence(rocksdb, model, updates_included);
  for_each_table(tables.size(), [&](size_t i) {
    Loading& table = tables[i];
    const bool replaces = !table.l3_is_newer && shared == Tables::kOwn;
    if (replaces) rocksdb.drop(table.name);  // rows of another version
    table.l3 = rocksdb.open(table.name, table.source.dim);
    if (table.l3_is_newer) return;
    rocksdb.set_note(content_note(table.name), kIncomplete);
    table.refused = copy_rows(table.rows(), *table.l3);
    rocksdb.set_note(content_note(table.name), table.content);
  });
}

void TierLoader::fill_memory(std::vector<Loading>& tables) {
  // One store for all, so that a lookup enters one gate.
  MemoryStore memory(MemorySettings{config_.volatile_db.num_partitions,
                                    config_.volatile_db.overflow, config_.volatile_db.row_type});
  for (Loading& table : tables) table.l2 = memory.open(table.name, table.source.dim);
  check_overflow(tables);
  for_each_table(tables.size(), [&](size_t i) {
    Loading& table = tables[i];
    table.refused = std::max(table.refused, copy_rows(table.rows(), *table.l2));
  });
}

// Rows that L2 has no room for are in L3. Without one they would read as the default row.
void TierLoader::check_overflow(std::span<const Loading> tables) const {
  const PsVolatile& db = config_.volatile_db;
  if (databases_.rocksdb != nullptr || !db.overflow.limited()) return;
  for (const Loading& table : tables) {
    const uint64_t lost = rows_beyond(*table.l2, db.overflow.margin, table.source);
    if (lost == 0) continue;
    const std::string found =
        cat("table ", table.name, ": volatile_db has no room for ", lost, " of its ",
            SparseFolder(table.source.folder, table.source.dim).rows(), " rows (overflow_margin ",
            db.overflow.margin, " in each of ", table.l2->partitions(),
            " partitions), and without a persistent_db ");
    EMBLEM_REQUIRE(db.overflow_may_lose_rows, found,
                   "they would read as the default row; increase overflow_margin, add a "
                   "persistent_db, or set overflow_may_lose_rows in volatile_db");
    log_warn(cat(found,
                 "rows are lost and read as the default row; emblem_rows_evicted_total counts "
                 "them"));
  }
}

void TierLoader::fill_redis(const std::shared_ptr<ServedModel>& model, std::vector<Loading>& tables,
                            int64_t updates_included) {
  std::vector<RedisFiller::Table> filled;
  for (Loading& table : tables) {
    filled.push_back({table.name,
                      table.content,
                      {table.source.folder, table.l3},
                      table.redis,
                      model->tables().at(table.source.name)});
    table.l2->require_note(content_note(table.name), kRefilling);
  }
  redis_->fill(model->name(), filled, updates_included);
  guard_->guard(model, std::move(filled), updates_included);
}

std::shared_ptr<ServedTable> TierLoader::serve(const Loading& table) {
  ServedTableSettings settings{
      .name = table.name,
      .dim = table.source.dim,
      .missing = table.source.missing,
      .seed = table.source.seed,
      .cache_missed = config_.volatile_db.cache_missed_embeddings,
      .update_l2 = passes_update_filters(config_.volatile_db.update_filters, table.name),
      .update_l3 = !databases_.read_only &&
                   passes_update_filters(config_.persistent_db.update_filters, table.name),
      .filter = table.source.filter};
  auto served =
      std::make_shared<ServedTable>(std::move(settings), table.l2, table.l3, &promotions_);
  served->count_refused(table.refused);
  return served;
}

// The number of the rows that lookups read: those of Redis, or of L3, from which memory was
// filled too.
int64_t TierLoader::sequence_of(const std::string& model, int64_t updates_included) const {
  for (const KvStore* store : {static_cast<const KvStore*>(databases_.redis.get()),
                               static_cast<const KvStore*>(databases_.rocksdb.get())}) {
    if (store != nullptr) return delta_sequence(*store, model).value_or(updates_included);
  }
  return updates_included;
}

}  // namespace emblem
