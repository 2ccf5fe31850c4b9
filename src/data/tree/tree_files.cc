#include "data/tree/tree_files.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <unordered_map>

#include "core/files/file.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "data/source/whole_text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kBeforeRoot = -1;  // id of the node that has the root as its child

// The next part of `text`, which ends before the separator; `text` becomes what follows it.
std::string_view next_part(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

// The lines of a file with three columns.
class TreeTable {
 public:
  TreeTable(const std::string& path, const TreePaths& paths)
      : path_(path),
        delimiter_(paths.field_delimiter),
        content_(read_whole_text(path, paths.storage)),
        rest_(content_) {}

  // The name of a column may have a type, "id:int64", and be one of several, "attrs|feature".
  void check_header(std::initializer_list<const char*> names) {
    std::string_view line = next_line();
    for (const char* choices : names) {
      const std::string_view field = next_part(line, delimiter_);
      const std::vector<std::string> known = split(choices, '|');
      if (std::ranges::find(known, field.substr(0, field.find(':'))) == known.end())
        fail(cat("a column of the first line is \"", printable(field), "\", expected ", known[0]));
    }
  }

  // False at the end. Lines without text are skipped.
  bool next() {
    while (!rest_.empty()) {
      fields_ = next_line();
      if (!fields_.empty()) return true;
    }
    return false;
  }

  int64_t take_id() {
    const std::string_view text = next_part(fields_, delimiter_);
    const auto id = parse_number<int64_t>(text);
    if (!id) fail(cat("the id is \"", printable(text), "\", expected a whole number"));
    return *id;
  }

  // Nodes of a level are drawn with equal chance.
  void take_weight() {
    const std::string_view text = next_part(fields_, delimiter_);
    if (parse_number<double>(text) != 1.0)
      fail(cat("the weight is \"", printable(text), "\", expected 1"));
  }

  std::string_view rest_of_line() const { return fields_; }
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorCode::kCorruption, cat(path_, ", line ", line_, ": ", problem));
  }

 private:
  std::string_view next_line() {
    ++line_;
    std::string_view line = next_part(rest_, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  std::string path_;
  char delimiter_;
  std::string content_;
  std::string_view rest_, fields_;
  int64_t line_ = 0;
};

// Nodes in the order of their file.
struct FileNodes {
  std::vector<int64_t> ids;
  std::vector<int32_t> levels, parents;
  std::vector<std::string> attributes;
  std::unordered_map<int64_t, int32_t> places;
  int32_t root = -1;
};

void read_nodes(const TreePaths& paths, FileNodes& nodes) {
  TreeTable table(paths.nodes, paths);
  table.check_header({"id", "weight", "attrs|feature|features"});
  while (table.next()) {
    const int64_t id = table.take_id();
    table.take_weight();
    const std::string_view attributes = table.rest_of_line();
    std::string_view text = attributes;
    const std::string_view level = next_part(text, paths.attr_delimiter);
    if (id == kBeforeRoot) continue;
    const auto number = parse_number<int32_t>(level);
    if (!number || *number < 0)
      table.fail(cat("the level of node ", id, ", its first attribute, is \"", printable(level),
                     "\", expected a whole number from 0, then \"", paths.attr_delimiter, "\""));
    const auto place = static_cast<int32_t>(nodes.ids.size());
    if (!nodes.places.emplace(id, place).second) table.fail(cat("node ", id, " is there twice"));
    if (*number == 0 && nodes.root >= 0)
      table.fail(cat("node ", id, " is on level 0, as node ",
                     nodes.ids[static_cast<size_t>(nodes.root)], "; a tree has one root"));
    if (*number == 0) nodes.root = place;
    nodes.ids.push_back(id);
    nodes.levels.push_back(*number);
    nodes.attributes.emplace_back(attributes);
  }
  if (nodes.root < 0) table.fail("the file ends without a node on level 0, the root");
  nodes.parents.assign(nodes.ids.size(), -1);
}

class EdgeReader {
 public:
  EdgeReader(const TreePaths& paths, FileNodes& nodes)
      : table_(paths.edges, paths), nodes_(nodes), kind_(paths.kind) {
    last_ = *std::ranges::max_element(nodes.levels);
  }

  void read() {
    table_.check_header({"src_id|src", "dst_id|dst", "weight"});
    if (kind_ == TreeEdges::kAncestors) {
      read_ancestors();
    } else {
      read_children();
    }
    for (size_t node = 0; node < nodes_.ids.size(); ++node) {
      if (static_cast<int32_t>(node) == nodes_.root) continue;
      if (nodes_.levels[node] == 1 && kind_ == TreeEdges::kAncestors)
        nodes_.parents[node] = nodes_.root;
      if (nodes_.parents[node] < 0)
        table_.fail(cat("the file ends without the parent of node ", nodes_.ids[node]));
    }
  }

 private:
  int32_t take_node() {
    const int64_t id = table_.take_id();
    if (id == kBeforeRoot && kind_ == TreeEdges::kChildren) return -1;
    const auto place = nodes_.places.find(id);
    if (place == nodes_.places.end())
      table_.fail(cat("node ", id, " is not in the table of nodes"));
    return place->second;
  }

  int32_t level(int32_t node) const { return nodes_.levels[static_cast<size_t>(node)]; }
  int64_t id(int32_t node) const { return nodes_.ids[static_cast<size_t>(node)]; }

  void set_parent(int32_t node, int32_t parent) {
    int32_t& known = nodes_.parents[static_cast<size_t>(node)];
    if (known >= 0 && known != parent)
      table_.fail(cat("node ", id(node), " has the parents ", id(known), " and ", id(parent)));
    known = parent;
  }

  void read_children() {
    while (table_.next()) {
      const int32_t parent = take_node(), child = take_node();
      table_.take_weight();
      if (child < 0) table_.fail("node -1 is a child, expected it before the root alone");
      if (parent < 0 && child != nodes_.root)
        table_.fail(
            cat("node -1 stands before ", id(child), ", but the root is ", id(nodes_.root)));
      if (parent < 0) continue;
      if (level(child) != level(parent) + 1)
        table_.fail(cat("node ", id(child), " of level ", level(child), " is a child of ",
                        id(parent), " of level ", level(parent)));
      set_parent(child, parent);
    }
  }

  // Those of an item follow from its ancestors, one on each level but the first and the last.
  void read_ancestors() {
    const auto inner = static_cast<size_t>(std::max(last_ - 1, 0));
    std::unordered_map<int32_t, std::vector<int32_t>> paths;
    while (table_.next()) {
      const int32_t item = take_node(), ancestor = take_node();
      table_.take_weight();
      if (level(item) != last_)
        table_.fail(cat("node ", id(item), " is on level ", level(item), ", expected an item of ",
                        "level ", last_));
      if (level(ancestor) < 1 || level(ancestor) >= last_)
        table_.fail(cat("node ", id(ancestor), " is on level ", level(ancestor),
                        ", expected one between the root and items"));
      std::vector<int32_t>& path = paths[item];
      path.resize(inner, -1);
      int32_t& known = path[static_cast<size_t>(level(ancestor)) - 1];
      if (known >= 0 && known != ancestor)
        table_.fail(cat("item ", id(item), " has the ancestors ", id(known), " and ", id(ancestor),
                        " on level ", level(ancestor)));
      known = ancestor;
    }
    for (const auto& [item, path] : paths) set_path(item, path);
  }

  void set_path(int32_t item, const std::vector<int32_t>& path) {
    int32_t child = item;
    for (size_t at = path.size(); at-- > 0;) {
      if (path[at] < 0)
        table_.fail(
            cat("the file ends without the ancestor of item ", id(item), " on level ", at + 1));
      set_parent(child, path[at]);
      child = path[at];
    }
  }

  TreeTable table_;
  FileNodes& nodes_;
  TreeEdges kind_;
  int32_t last_ = 0;
};

// Nodes level by level, those of a parent one after the other.
std::vector<int32_t> order_of(const FileNodes& nodes) {
  std::vector<std::vector<int32_t>> children(nodes.ids.size());
  for (size_t node = 0; node < nodes.ids.size(); ++node)
    if (nodes.parents[node] >= 0)
      children[static_cast<size_t>(nodes.parents[node])].push_back(static_cast<int32_t>(node));
  std::vector<int32_t> order = {nodes.root};
  for (size_t at = 0; at < order.size(); ++at) {
    const auto& of = children[static_cast<size_t>(order[at])];
    order.insert(order.end(), of.begin(), of.end());
  }
  return order;
}

void write_edge(FileWriter& file, int64_t from, int64_t to) {
  file.write(cat(from, "\t", to, "\t1.0\n"));
}

constexpr const char* kEdgeHeader = "src_id:int64\tdst_id:int64\tweight:float\n";

void write_ancestors(const std::string& path, const ItemTree& tree) {
  FileWriter file(path);
  file.write(kEdgeHeader);
  for (int32_t leaf = tree.leaves().begin; leaf < tree.leaves().end; ++leaf)
    for (int32_t node = tree.parent(leaf); node > 0; node = tree.parent(node))
      write_edge(file, tree.id(leaf), tree.id(node));
  file.finish();
}

void write_children(const std::string& path, const ItemTree& tree) {
  FileWriter file(path);
  file.write(kEdgeHeader);
  write_edge(file, kBeforeRoot, tree.id(0));
  for (int32_t node = 1; node < tree.size(); ++node)
    write_edge(file, tree.id(tree.parent(node)), tree.id(node));
  file.finish();
}

void write_nodes(const std::string& path, const ItemTree& tree,
                 const std::vector<std::vector<std::string>>& columns, char delimiter) {
  FileWriter file(path);
  file.write("id:int64\tweight:float\tfeature:string\n");
  for (int64_t level = 0; level < tree.levels(); ++level) {
    const ItemTree::Nodes nodes = tree.level(level);
    for (int32_t node = nodes.begin; node < nodes.end; ++node) {
      std::string attributes = cat(tree.id(node));
      for (const auto& column : columns) {
        const std::string& text = column.at(static_cast<size_t>(node));
        EMBLEM_REQUIRE(text.find_first_of(std::string("\t\r\n") + delimiter) == std::string::npos,
                       "an attribute of node ", tree.id(node), " is \"", printable(text),
                       "\", which has a tab, the end of a line or \"", delimiter,
                       "\", which is between attributes; choose another delimiter");
        attributes += delimiter;
        attributes += text;
      }
      if (node == 0)
        file.write(cat(kBeforeRoot, "\t1.0\t", kBeforeRoot, delimiter, attributes, "\n"));
      file.write(cat(tree.id(node), "\t1.0\t", level, delimiter, attributes, "\n"));
    }
  }
  file.finish();
}

}  // namespace

TreeNodes read_tree(const TreePaths& paths) {
  FileNodes nodes;
  read_nodes(paths, nodes);
  EdgeReader(paths, nodes).read();
  const std::vector<int32_t> order = order_of(nodes);
  std::vector<int32_t> places(order.size());
  for (size_t at = 0; at < order.size(); ++at)
    places[static_cast<size_t>(order[at])] = static_cast<int32_t>(at);
  std::vector<int64_t> ids;
  std::vector<int32_t> parents;
  TreeNodes read;
  for (const int32_t node : order) {
    const auto at = static_cast<size_t>(node);
    ids.push_back(nodes.ids[at]);
    parents.push_back(node == nodes.root ? -1 : places[static_cast<size_t>(nodes.parents[at])]);
    read.attributes.push_back(std::move(nodes.attributes[at]));
  }
  try {
    read.tree = ItemTree(std::move(ids), std::move(parents));
  } catch (const Error& error) {
    throw Error(ErrorCode::kCorruption, cat(paths.edges, ": ", error.what()));
  }
  return read;
}

void write_tree(const std::string& folder, const ItemTree& tree,
                const std::vector<std::vector<std::string>>& columns, char attr_delimiter) {
  const std::filesystem::path path(folder);
  write_nodes((path / kNodeTable).string(), tree, columns, attr_delimiter);
  write_ancestors((path / kEdgeTable).string(), tree);
  write_children((path / kPredictEdgeTable).string(), tree);
}

}  // namespace emblem
