// serve/repository/remote_repository.h - model repositories in remote stores.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "data/source/storage.h"

namespace emblem {

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
  // A refresh under way fails at its next failed request. May be called by any thread.
  void stop_trying_again();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
