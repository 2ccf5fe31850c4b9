// serve/repository/remote_repository.h - model repositories in remote stores.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "serve/repository/export.h"

namespace emblem {

// As export_model, with `out` the address of a model's folder: s3://BUCKET/REPOSITORY/NAME.
ExportedModel export_to_store(const std::string& checkpoint, const std::string& out,
                              int64_t version, const LayerRanges* int8, RemoteStorage& storage);

// A repository of which a server works on a copy in the cache folder.
class RemoteRepository {
 public:
  // Sends no request.
  RemoteRepository(const std::string& uri, const Storage& storage);
  ~RemoteRepository();

  const std::string& local() const;
  // Makes the copy what the repository is now: all versions of all models. Throws Error when it
  // cannot be listed; the copy stays usable. Returns models of which something could not be
  // fetched, with the reason; the copy keeps what it has of them.
  std::map<std::string, std::string> refresh();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
