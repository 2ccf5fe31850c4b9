// emblem/table.h - an embedding table of one's own: rows of floats by key, with the state of their
// optimizer. emblem/lookup.h reads and trains tables.
//
// A static table has a row for each of the keys 0, 1, .. rows - 1. A dynamic table takes any 64-bit
// key: training gives a key its row at the first occurrence (or a later one: admission), and evicts
// rows where it may hold no more.
//
//   Table users({.name = "users", .dim = 16, .optimizer = {"adagrad", {{"lr", "0.1"}}}});
//   Lookup lookup({{&users}});
//   lookup.forward({{.keys = ids}}, Pass::kTraining, rows.data());  // [ids, 16]
//   lookup.backward(gradients.data());                              // updates their rows
//   users.save("users.table");
//
// The content of a table depends on its options and on what was looked up and learned alone: not on
// the number of threads, the order of memory, or whether it was saved and loaded meanwhile. On a
// GPU sums of gradients may differ in their last bits unless the lookup is deterministic, as it is
// by default.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "emblem/api.h"

namespace emblem {
EMBLEM_PUBLIC {
  // An update rule by the name that docs/configuration.md gives it in sparse_optimizer, without
  // "_optimizer": "sgd", "momentum", "adagrad", "rowwise_adagrad", "adam", "partial_rowwise_adam",
  // "rmsprop", "adadelta", "ftrl". Settings are the fields of its message, as {"lr", "0.1"}; those
  // that are missing have the defaults of that document. Errors name the nearest valid name.
  struct Optimizer {
    std::string name = "sgd";
    std::map<std::string, std::string> settings = {};
  };

  struct TableOptions {
    std::string name = "table";       // in messages and in files
    int64_t dim = 0;                  // floats per row, at least 1
    int64_t rows = 0;                 // of a static table; 0: the table is dynamic
    std::string value_type = "fp32";  // of weights: "fp32", "fp16" or "bf16". State is fp32
    // First values of a row, a function of seed, key and position: "uniform,a=-0.01,b=0.01",
    // "normal,mean=0,std=0.1", "trunc_normal,mean=0,std=0.1", "constant,val=0", "zeros".
    std::string initializer = "uniform,a=-0.01,b=0.01";
    std::string missing = "zeros";  // what inference reads for keys without a row; likewise
    uint64_t seed = 1;
    Optimizer optimizer;
    bool trainable = true;            // false: lookups read alone, no update changes a row
    bool stochastic_rounding = true;  // of updated weights in 16 bits; by key and step, not by time

    // ---- dynamic tables alone ----
    int64_t capacity = 0;          // most rows; 0: no limit. Needed to evict
    int64_t initial_capacity = 0;  // rows to have memory for from the beginning
    // Which rows leave a full table: "lru", "lfu" (fewest occurrences), "step" (as lru, by training
    // steps), "custom" (lowest score of set_next_score), "none" (a full table is an error).
    std::string eviction = "none";
    int64_t admission_threshold = 0;  // a key gets a row at this occurrence; 0, 1: at the first
    int64_t admission_capacity = 0;   // most keys that are counted meanwhile; 0: capacity

    // ---- where it is ----
    std::string device = "cpu";  // or "cuda"
    int threads = 0;  // that initialize, load and save; 0: one per CPU. They end with the call
    // On a GPU: "device" (all rows in its memory), "cache" (rows in host memory, with a cache of
    // device_bytes on the GPU) or "host" (in host memory, with a cache for the rows of a pass).
    std::string placement = "device";
    int64_t device_bytes = 0;
    // On a GPU: the cudaStream_t that all work of the table and of its lookups is enqueued on,
    // which outlives it. Tables of one lookup have the same. Null: one of its own.
    void* stream = nullptr;
  };

  // Rows by key. weights is [keys, dim], states [keys, state_floats].
  struct TableRows {
    std::span<const int64_t> keys;
    std::span<const float> weights;
    std::span<const float> states = {};    // empty: that of new rows
    std::span<const int64_t> scores = {};  // of dynamic tables; empty: 0
  };

  // Training may give keys rows and change scores; inference changes nothing.
  enum class Pass { kInference, kTraining };

  // Spans are host memory on every device, and are not kept. On a GPU functions are ordered with
  // the stream and wait for it.
  //
  // Thread-compatible: const functions may run at once, others need a lock of the caller's, and so
  // do lookups over the table. Functions throw Error, with one line that names the table, and then
  // leave it as it was unless they say something else; std::bad_alloc where memory ends.
  class EMBLEM_API Table {
   public:
    // Throws kInvalidArgument for options that contradict each other, kOutOfMemory where rows of a
    // static table do not fit into memory, kUnsupported or kUnavailable without a usable GPU.
    explicit Table(const TableOptions& options);
    // Lookups over a table keep what it holds: it may end, or be moved, before them.
    ~Table();
    Table(Table&&) noexcept;
    Table& operator=(Table&&) noexcept;

    const TableOptions& options() const;
    int64_t size() const;          // keys that have a row
    int64_t bytes() const;         // memory held, of host and GPU
    int64_t state_floats() const;  // floats of optimizer state per row

    // rows[i] = the row of keys[i], [keys, dim]. In training new keys get rows, as in a lookup; in
    // inference a key without one reads as options().missing. Throws for keys outside of a static
    // table, and in training where a table is full that does not evict: no key has got a row then,
    // but those that wait for admission may have been counted.
    void read(std::span<const int64_t> keys, Pass pass, std::span<float> rows);
    // Whether a key has a row; for static tables, whether it is one of its keys.
    bool contains(int64_t key) const;

    // Inserts rows, or overwrites them; the last of equal keys counts. Evicts nothing: throws where
    // there would be more rows than the capacity.
    void write(const TableRows& rows);
    // Removes rows of a dynamic table. How many keys had one.
    int64_t erase(std::span<const int64_t> keys);
    // Dynamic: no rows. Static: all rows as new.
    void clear();
    // Calls `take` with all rows, keys ascending, at most `batch_rows` at a time. The spans are
    // valid during the call alone. What `take` throws ends it.
    void each(const std::function<void(const TableRows&)>& take, int64_t batch_rows = 65536) const;

    // With eviction "custom": the score that later training lookups give to their keys.
    void set_next_score(int64_t score);

    // Updates that lookups have made, from which optimizers such as Adam correct their first steps.
    // Part of the content. A table that was filled by write() with states that are not new has had
    // as many as these states say: set them.
    int64_t updates() const;
    void set_updates(int64_t updates);

    // Writes a new folder in the layout of a table in a checkpoint (docs/formats.md): key,
    // emb_vector, state, score, admission, table.json, and updates.json. It appears whole or not at
    // all. Throws where the folder exists, and where a weight is NaN or infinite.
    void save(const std::string& folder) const;
    // Replaces the content by that of a folder which save wrote, or of a table in a checkpoint,
    // saved on any device and by any number of ranks. kWeightsOnly needs the dimension alone, and
    // gives rows new state: of tables that had another optimizer, or to read alone. Both need room
    // for all rows: a load evicts nothing. updates() are those of the table that was saved, the
    // steps of the training in a table of a checkpoint, 0 with kWeightsOnly and where neither
    // updates.json nor the checkpoint says. Files are checked first; where ranks have saved the
    // same key, or a read fails meanwhile, the table has some of the rows when it throws.
    enum class Load { kContinue, kWeightsOnly };
    void load(const std::string& folder, Load load = Load::kContinue);

    struct State;  // known to the library alone
    const std::shared_ptr<State>& state() const { return state_; }

   private:
    std::shared_ptr<State> state_;
  };

}  // namespace api
}  // namespace emblem
