// serve/repository/remote_repository.h - model repositories in remote stores.
#pragma once

#include <memory>
#include <string>

#include "serve/repository/export.h"

namespace emblem {

// As export_model, with `out` the address of a model's folder: s3://BUCKET/REPOSITORY/NAME.
ExportedModel export_to_store(const std::string& checkpoint, const std::string& out,
                              int64_t version, const LayerRanges* int8);

// A repository of which a server works on a copy in the cache folder.
class RemoteRepository {
 public:
  // Fetches all versions of all models.
  explicit RemoteRepository(const std::string& uri);
  ~RemoteRepository();

  const std::string& local() const;
  // Makes the copy what the repository is now. Throws Error when it cannot be listed; the copy
  // stays usable. Models that cannot be fetched are warnings; the copy keeps what it has of them.
  void refresh();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
