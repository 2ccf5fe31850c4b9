// data/source/storage.h - the remote stores of a configuration, as they are handed down to all that
// reads and writes with its settings.
#pragma once

#include <memory>
#include <string>

namespace emblem {

namespace config {
class DataConfig;
}
class RemoteStorage;

// Its holders share connections, download threads and what is open. Null where nothing remote is
// read or written: addresses are errors then.
using Storage = std::shared_ptr<RemoteStorage>;

// With the settings of `data`. Connects to nothing.
Storage open_storage(const config::DataConfig& data);

// *storage. Throws kInternal when there is none: whoever has the settings must hand it down.
RemoteStorage& storage_for(const Storage& storage, const std::string& uri);

// Whether a list of inputs names objects of remote stores.
bool has_remote_inputs(const std::string& inputs);

}  // namespace emblem
