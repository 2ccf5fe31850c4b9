#include <cstdio>
#include <memory>
#include <unordered_map>

#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/system/interrupt.h"
#include "core/system/progress.h"
#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "data/convert.h"
#include "data/format/output_folder.h"
#include "data/tree/item_table.h"
#include "retrieval/cluster_order.h"

namespace emblem {
namespace {

struct TreeArguments {
  std::string items, vectors, out, attr_delimiter = ",";
  ItemTableColumns columns;
  int64_t clusters = 2;
  int threads = available_cpus();
  RemoteArguments remote;
};

DataSource source_of(const std::string& input, const TreeArguments& options) {
  InputHints hints;
  hints.storage = open_storage(options.remote);
  return describe_input(input, hints);
}

// The vectors of the items, in their order.
ItemRows vectors_of(const TreeItems& items, const TreeArguments& options) {
  const ItemTableVectors vectors =
      read_item_vectors(source_of(options.vectors, options), options.columns.id);
  std::unordered_map<int64_t, size_t> places;
  for (size_t i = 0; i < vectors.ids.size(); ++i)
    EMBLEM_REQUIRE(places.emplace(vectors.ids[i], i).second, options.vectors, " has item ",
                   vectors.ids[i], " twice");
  const auto dim = static_cast<size_t>(vectors.dim);
  ItemRows rows(DType::kF32, vectors.dim);
  for (const int64_t id : items.ids) {
    const auto place = places.find(id);
    EMBLEM_REQUIRE(place != places.end(), "item ", id, " of ", options.items, " has no vector in ",
                   options.vectors);
    rows.append(std::span(vectors.values).subspan(place->second * dim, dim));
  }
  return rows;
}

std::vector<size_t> order_by_vectors(const TreeItems& items, const TreeArguments& options) {
  const ItemRows rows = vectors_of(items, options);
  ThreadPool threads(options.threads);
  Progress progress("clustering", rows.count(), "items");
  const std::vector<int64_t> order =
      cluster_order(Context{.threads = &threads}, rows, options.clusters, 1, [&](int64_t placed) {
        if (interrupted()) throw Error(ErrorCode::kCancelled, "interrupted: no tree was written");
        progress.update(placed);
      });
  progress.finish();
  return {order.begin(), order.end()};
}

void run(const TreeArguments& options) {
  EMBLEM_REQUIRE(options.attr_delimiter.size() == 1, "--attr-delimiter is \"",
                 printable(options.attr_delimiter), "\", expected one character");
  EMBLEM_REQUIRE(options.vectors.empty() != options.columns.category.empty(),
                 "a tree is made by --category, a column of --items, or by --vectors; give one of "
                 "them");
  OutputFolder folder(options.out, Overwrite::kRefuse);
  const TreeItems items = read_item_table(source_of(options.items, options), options.columns);
  const std::vector<size_t> order =
      options.vectors.empty() ? order_by_category(items) : order_by_vectors(items, options);
  const ItemTree tree = write_item_tree(items, options.columns, order, options.clusters,
                                        options.attr_delimiter[0], folder.path());
  folder.commit();
  std::printf("wrote %s: %ld items, %d nodes on %ld levels\n", folder.target().c_str(),
              static_cast<long>(items.ids.size()), tree.size(), static_cast<long>(tree.levels()));
  std::string sizes;
  for (int64_t level = 0; level < tree.levels(); ++level)
    sizes += cat(level == 0 ? "" : ", ", tree.level(level).count());
  std::printf("nodes of levels: %s\n", sizes.c_str());
}

}  // namespace

void add_tree(Command& program) {
  auto options = std::make_shared<TreeArguments>();
  Command command = program.add_command(
      "tree", "Make a tree of items, which tdm_sampler and emblem eval --tree read");
  command.option("--items", options->items, "PATH", "All items, in any format: a row for each")
      .required();
  command
      .option("--id", options->columns.id, "COLUMN",
              "Column with the ids of items: whole numbers from 0, each once")
      .required();
  const Option category = command.option(
      "--category", options->columns.category, "COLUMN",
      "Items are sorted by this column and their ids, and cut into parts again and again");
  command
      .option(
          "--vectors", options->vectors, "PATH",
          "Vectors of the items: column --id, all others are elements. Items are cut by k-means "
          "into parts of equal size, again and again")
      .excludes(category);
  command.list("--attributes", options->columns.attributes, "NAME,...",
               "Columns of --items for attr_fields of tdm_sampler; a node has what most of its "
               "items have");
  command.list("--mean-attributes", options->columns.mean_attributes, "NAME,...",
               "Columns of numbers that follow them; a node has the mean of its items");
  command.option("--clusters", options->clusters, "N", "Children of a node").range(2, 1 << 20);
  command.option("--attr-delimiter", options->attr_delimiter, "CHAR",
                 "Between attributes, as attr_delimiter of tdm_sampler");
  command.option("--out", options->out, "DIR", "Folder to write; it must not exist, or be empty")
      .required();
  command.option("--threads", options->threads, "N", "Compute threads").positive();
  add_remote_options(command, options->remote);
  command.run_interruptible([options] {
    run(*options);
    return 0;
  });
}

}  // namespace emblem
