#include "store/rocksdb_module/rocksdb_module.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "emblem/api.h"
#include "store/key_bytes.h"

namespace emblem {
namespace {

ErrorCode code_of(const rocksdb::Status& status) {
  if (status.IsCorruption()) return ErrorCode::kCorruption;
  if (status.IsInvalidArgument() || status.IsNotSupported()) return ErrorCode::kInvalidArgument;
  return ErrorCode::kUnavailable;
}

const char* advice_for(const rocksdb::Status& status, const std::string& text) {
  if (status.IsCorruption())
    return "; restore the folder from a copy, or remove it: it is then filled from the files of "
           "the "
           "models, without the updates since they were exported";
  if (text.find("/LOCK:") != std::string::npos)
    return "; another process has it open: give each server a folder of its own";
  return "";
}

void check(const rocksdb::Status& status, const std::string& what) {
  if (status.ok()) return;
  const std::string text = status.ToString();
  throw Error(code_of(status), cat(what, ": ", text, advice_for(status, text)));
}

// A folder that is open.
struct Database {
  explicit Database(const RocksDbSettings& from) : settings(from) {}
  ~Database() {
    if (db == nullptr) return;
    db->DestroyColumnFamilyHandle(plain);
    db->Close();
  }
  void require_writable(const std::string& what) const {
    EMBLEM_REQUIRE(!settings.read_only, what, ": ", settings.path, " was opened read_only");
  }

  RocksDbSettings settings;
  rocksdb::ColumnFamilyOptions family_options;
  std::unique_ptr<rocksdb::DB> db;
  rocksdb::ColumnFamilyHandle* plain = nullptr;  // the default column family: notes
};

// A column family; closed before its database is.
struct Family {
  Family(std::shared_ptr<Database> of, rocksdb::ColumnFamilyHandle* opened)
      : database(std::move(of)), handle(opened) {}
  ~Family() { database->db->DestroyColumnFamilyHandle(handle); }
  Family(const Family&) = delete;

  std::shared_ptr<Database> database;
  rocksdb::ColumnFamilyHandle* handle;
};

class RocksDbTable : public KvTable {
 public:
  RocksDbTable(std::string name, int64_t dim, std::shared_ptr<Family> family)
      : KvTable(std::move(name), dim),
        family_(std::move(family)),
        settings_(family_->database->settings),
        encoding_{settings_.key_bytes},
        row_bytes_(static_cast<size_t>(dim) * sizeof(float)) {
    check_first_row();
  }

  int64_t fetch(std::span<const int64_t> keys, std::span<float> rows,
                std::span<uint8_t> found) const override {
    check_sizes(keys, rows.size(), found.size());
    int64_t hits = 0;
    for (size_t begin = 0, step = batch(); begin < keys.size(); begin += step) {
      const size_t count = std::min(step, keys.size() - begin);
      hits += fetch_some(keys.subspan(begin, count), rows.data() + begin * dim(), &found[begin]);
    }
    return hits;
  }

  void insert(std::span<const int64_t> keys, std::span<const float> rows) override {
    write(keys, rows, {});
  }
  void bulk_insert(std::span<const int64_t> keys, std::span<const float> rows) override {
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    write(keys, rows, options);
  }
  void finish_bulk() override { check(db().Flush({}, family_->handle), at("writing to the disk")); }

  void erase(std::span<const int64_t> keys) override {
    family_->database->require_writable(name());
    rocksdb::WriteBatch batch;
    for (const int64_t& key : keys) {
      if (encoding_.fits(key)) batch.Delete(family_->handle, slice(key));
    }
    check(db().Write({}, &batch), at("erasing"));
  }
  void clear() override {
    family_->database->require_writable(name());
    const std::string end(encoding_.width + 1, '\xff');
    check(db().DeleteRange({}, family_->handle, rocksdb::Slice(), end), at("clearing"));
  }

  int64_t size() const override {
    uint64_t keys = 0;
    db().GetIntProperty(family_->handle, rocksdb::DB::Properties::kEstimateNumKeys, &keys);
    return static_cast<int64_t>(keys);
  }

  void iterate(int64_t batch_rows, const Take& take) const override {
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    options.readahead_size = size_t{2} << 20;
    const std::unique_ptr<rocksdb::Iterator> at_row(db().NewIterator(options, family_->handle));
    std::vector<int64_t> keys;
    std::vector<float> rows;
    const auto give = [&] {
      if (!keys.empty()) take(keys, rows);
      keys.clear();
      rows.clear();
    };
    for (at_row->SeekToFirst(); at_row->Valid(); at_row->Next()) {
      keys.push_back(key_of(at_row->key()));
      check_row(keys.back(), at_row->value());
      rows.resize(rows.size() + static_cast<size_t>(dim()));
      std::memcpy(rows.data() + rows.size() - dim(), at_row->value().data(), row_bytes_);
      if (static_cast<int64_t>(keys.size()) == batch_rows) give();
    }
    check(at_row->status(), at("iterating"));
    give();
  }

 private:
  rocksdb::DB& db() const { return *family_->database->db; }
  size_t batch() const { return static_cast<size_t>(settings_.max_batch); }
  std::string at(const char* doing) const {
    return cat("rocksdb ", settings_.path, ", table ", name(), ", ", doing);
  }
  rocksdb::Slice slice(const int64_t& key) const {
    const std::string_view bytes = encoding_.bytes(key);
    return {bytes.data(), bytes.size()};
  }
  int64_t key_of(const rocksdb::Slice& bytes) const {
    if (bytes.size() == encoding_.width) return encoding_.key(bytes.data());
    throw Error(ErrorCode::kCorruption,
                cat(at("reading"), ": keys of ", bytes.size(), " bytes, but ", encoding_.width,
                    " were expected: change \"supportlonglong\" or the folder"));
  }
  void check_row(int64_t key, const rocksdb::Slice& row) const {
    if (row.size() == row_bytes_) return;
    throw Error(ErrorCode::kCorruption,
                cat(at("reading"), ": the row of key ", key, " has ", row.size(),
                    " bytes, but dimension ", dim(), " needs ", row_bytes_));
  }
  void check_first_row() const {
    const std::unique_ptr<rocksdb::Iterator> first(db().NewIterator({}, family_->handle));
    first->SeekToFirst();
    check(first->status(), at("opening"));
    if (first->Valid()) check_row(key_of(first->key()), first->value());
  }

  int64_t fetch_some(std::span<const int64_t> keys, float* rows, uint8_t* found) const {
    const size_t count = keys.size();
    std::vector<rocksdb::Slice> slices;
    for (const int64_t& key : keys) slices.push_back(slice(key));
    std::vector<rocksdb::PinnableSlice> values(count);
    std::vector<rocksdb::Status> states(count);
    db().MultiGet({}, family_->handle, count, slices.data(), values.data(), states.data());
    int64_t hits = 0;
    for (size_t i = 0; i < count; ++i) {
      found[i] = states[i].ok() && encoding_.fits(keys[i]);
      if (!states[i].ok() && !states[i].IsNotFound()) check(states[i], at("reading"));
      if (found[i] == 0) continue;
      check_row(keys[i], values[i]);
      std::memcpy(rows + i * static_cast<size_t>(dim()), values[i].data(), row_bytes_);
      ++hits;
    }
    return hits;
  }

  void write(std::span<const int64_t> keys, std::span<const float> rows,
             const rocksdb::WriteOptions& options) {
    check_sizes(keys, rows.size());
    family_->database->require_writable(name());
    for (size_t begin = 0, step = batch(); begin < keys.size(); begin += step) {
      rocksdb::WriteBatch batch;
      for (size_t i = begin; i < std::min(keys.size(), begin + step); ++i) {
        encoding_.require(name(), keys[i]);
        const float* row = rows.data() + i * static_cast<size_t>(dim());
        batch.Put(family_->handle, slice(keys[i]),
                  rocksdb::Slice(reinterpret_cast<const char*>(row), row_bytes_));
      }
      check(db().Write(options, &batch), at("writing"));
    }
  }

  std::shared_ptr<Family> family_;
  const RocksDbSettings& settings_;
  KeyBytes encoding_;
  size_t row_bytes_;
};

rocksdb::ColumnFamilyOptions family_options(const RocksDbSettings& settings) {
  rocksdb::BlockBasedTableOptions blocks;
  blocks.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  blocks.block_cache = rocksdb::NewLRUCache(static_cast<size_t>(settings.cache_bytes));
  blocks.cache_index_and_filter_blocks = true;
  blocks.pin_l0_filter_and_index_blocks_in_cache = true;
  blocks.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(blocks));
  options.compression = rocksdb::kNoCompression;  // weights do not shrink
  options.write_buffer_size = size_t{64} << 20;
  options.optimize_filters_for_hits = true;
  return options;
}

class RocksDbStore : public KvStore {
 public:
  explicit RocksDbStore(const RocksDbSettings& settings)
      : database_(std::make_shared<Database>(settings)) {
    database_->family_options = family_options(settings);
    rocksdb::DBOptions options;
    options.create_if_missing = !settings.read_only;
    options.IncreaseParallelism(std::max(1, settings.threads));
    options.info_log_level = rocksdb::WARN_LEVEL;
    options.keep_log_file_num = 4;

    std::vector<std::string> names;
    const auto listed = rocksdb::DB::ListColumnFamilies(options, settings.path, &names);
    if (!listed.ok() && settings.read_only) check(listed, describe() + ", opening");
    if (names.empty()) names.push_back(rocksdb::kDefaultColumnFamilyName);
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (const auto& name : names) families.emplace_back(name, database_->family_options);
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* db = nullptr;
    check(settings.read_only
              ? rocksdb::DB::OpenForReadOnly(options, settings.path, families, &handles, &db)
              : rocksdb::DB::Open(options, settings.path, families, &handles, &db),
          describe() + ", opening");
    database_->db.reset(db);
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == rocksdb::kDefaultColumnFamilyName) {
        database_->plain = handles[i];
      } else {
        families_[names[i]] = std::make_shared<Family>(database_, handles[i]);
      }
    }
  }

  std::shared_ptr<KvTable> open(const std::string& name, int64_t dim) override {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Family>& family = families_[name];
    if (family == nullptr) {
      rocksdb::ColumnFamilyHandle* handle = nullptr;
      database_->require_writable(cat("rocksdb has no table ", name));
      check(database_->db->CreateColumnFamily(database_->family_options, name, &handle),
            cat(describe(), ", making table ", name));
      family = std::make_shared<Family>(database_, handle);
    }
    return std::make_shared<RocksDbTable>(name, dim, family);
  }

  void drop(const std::string& name) override {
    std::lock_guard lock(mutex_);
    const auto found = families_.find(name);
    if (found == families_.end() || found->second == nullptr) return;
    database_->require_writable(name);
    check(database_->db->DropColumnFamily(found->second->handle),
          cat(describe(), ", dropping table ", name));
    families_.erase(found);
  }

  bool persistent() const override { return true; }

  std::optional<std::string> note(const std::string& name) const override {
    std::string text;
    const auto status = database_->db->Get({}, database_->plain, name, &text);
    if (status.IsNotFound()) return std::nullopt;
    check(status, cat(describe(), ", reading note ", name));
    return text;
  }
  void set_note(const std::string& name, std::string_view text) override {
    database_->require_writable(name);
    check(database_->db->Put({}, database_->plain, name, rocksdb::Slice(text.data(), text.size())),
          cat(describe(), ", writing note ", name));
  }

  std::string describe() const override { return "rocksdb " + database_->settings.path; }

 private:
  std::shared_ptr<Database> database_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Family>> families_;
};

std::unique_ptr<KvStore> open(const RocksDbSettings& settings) {
  return std::make_unique<RocksDbStore>(settings);
}

constexpr RocksDbModule kModule = {kVersion, open};

}  // namespace
}  // namespace emblem

extern "C" __attribute__((visibility("default"))) const emblem::RocksDbModule*
emblem_rocksdb_module() {
  return &emblem::kModule;
}
