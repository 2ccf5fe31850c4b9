// data/source/storage.h - the remote stores of a configuration, which are passed to everything
// that reads and writes with its settings.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

namespace config {
class DataConfig;
}
class RemoteStorage;

// Its holders share connections, download threads and what is open. Null where nothing remote is
// read or written: addresses are errors then.
using Storage = std::shared_ptr<RemoteStorage>;

// A storage with the settings of `data`. Connects to nothing.
Storage open_storage(const config::DataConfig& data);

// *storage. Throws kInternal when there is none: whoever has the settings must hand it down.
RemoteStorage& storage_for(const Storage& storage, const std::string& uri);

// Whether a list of inputs names objects of remote stores.
bool has_remote_inputs(const std::string& inputs);

// Rows in memory that a process reads as it reads files: "memory://NAME", in place of a path, names
// tables that the storage was given (RemoteStorage::set_tables).
class ColumnTable;
using MemoryTables = std::vector<std::shared_ptr<const ColumnTable>>;

bool is_memory_address(std::string_view input);
// Throws kNotFound with the remedy where the storage has none by this name, as after the process
// that had them.
MemoryTables memory_tables(const Storage& storage, const std::string& address);

}  // namespace emblem
