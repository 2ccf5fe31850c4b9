#include "ps/remote/remote_model.h"

namespace emblem {
namespace {

// What the tables of a version share.
struct RemoteTables {
  RemoteTables(TableServers& from, ModelId id)
      : servers(from), model(std::move(id)), use(from.use(model)) {}

  TableServers& servers;
  const ModelId model;
  const std::shared_ptr<const void> use;
};

class RemoteTable final : public KvTable {
 public:
  RemoteTable(const TableSource& source, std::shared_ptr<const RemoteTables> tables)
      : KvTable(source.name, source.dim),
        tables_(std::move(tables)),
        kind_(source.filter.is_hashed ? TableKind::kDynamic : TableKind::kStatic) {}

  int64_t fetch(std::span<const int64_t> keys, std::span<float> rows,
                std::span<uint8_t> found) const override {
    check_sizes(keys, rows.size(), found.size());
    const RowFetch one = part(keys, rows, found);
    tables_->servers.fetch(tables_->model, {&one, 1});
    return count(found);
  }

  const void* fetch_group() const override { return tables_.get(); }

  void fetch_together(std::span<KvFetch* const> fetches) const override {
    std::vector<RowFetch> parts;
    for (const KvFetch* fetch : fetches) {
      const auto& table = static_cast<const RemoteTable&>(*fetch->table);
      table.check_sizes(fetch->keys, fetch->rows.size(), fetch->found.size());
      parts.push_back(table.part(fetch->keys, fetch->rows, fetch->found));
    }
    try {
      tables_->servers.fetch(tables_->model, parts);
      for (KvFetch* fetch : fetches) fetch->hits = count(fetch->found);
    } catch (const Error& error) {
      for (KvFetch* fetch : fetches) fetch->error = error;
    }
  }

  void insert(std::span<const int64_t>, std::span<const float>) override { refuse(); }
  void erase(std::span<const int64_t>) override { refuse(); }
  void clear() override { refuse(); }
  int64_t size() const override { refuse(); }
  void iterate(int64_t, const Take&) const override { refuse(); }

 private:
  [[noreturn]] void refuse() const {
    throw Error(ErrorCode::kUnsupported,
                cat("table ", name(), " is on table servers: only lookups are possible"));
  }
  RowFetch part(std::span<const int64_t> keys, std::span<float> rows,
                std::span<uint8_t> found) const {
    return {name(), dim(), kind_, keys, rows, found};
  }
  static int64_t count(std::span<const uint8_t> found) {
    int64_t hits = 0;
    for (const uint8_t flag : found) hits += flag;
    return hits;
  }

  const std::shared_ptr<const RemoteTables> tables_;
  const TableKind kind_;
};

}  // namespace

std::shared_ptr<ServedModel> make_remote_model(TableServers& servers, const ModelId& model,
                                               std::span<const TableSource> sources) {
  const auto shared = std::make_shared<const RemoteTables>(servers, model);
  const std::string problem = servers.problem(model);
  if (!problem.empty()) throw Error(ErrorCode::kUnavailable, problem);
  ServedModel::Tables tables;
  for (const TableSource& source : sources) {
    ServedTableSettings settings{.name = served_table_name(model.model, source.name),
                                 .dim = source.dim,
                                 .missing = source.missing,
                                 .seed = source.seed};
    tables[source.name] = std::make_shared<ServedTable>(
        std::move(settings), std::make_shared<RemoteTable>(source, shared), nullptr);
  }
  auto served = std::make_shared<ServedModel>(model.model, model.version);
  served->set_tables(std::move(tables));
  return served;
}

}  // namespace emblem
