// emblem/pipeline.h - what is trained and how: data, features, model, optimizers, evaluation.
//
// Text of the format that docs/configuration.md describes; TorchEasyRec's files are read as well.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "emblem/api.h"
#include "emblem/data.h"

namespace emblem {
EMBLEM_PUBLIC {
  // A search for width, rates, regularization and the like, by training on a part of the rows and
  // comparing by others that are kept from it. It ends after `steps` training steps, or when no
  // change gains any more; equal data and options give equal pipelines.
  struct Tuning {
    int64_t steps = 0;  // of all trials together; 0: no search
    uint64_t seed = 1;
    std::string device = "cpu";
    int threads = 0;  // compute threads; 0: one per CPU
    // After each step, on the calling thread: steps so far, and what is tried.
    std::function<void(int64_t steps, const std::string& trial)> on_step;
    std::function<bool()> is_cancelled;  // true ends it: for_data throws kCancelled
  };

  // What Pipeline::for_data chooses by itself unless it is given.
  struct StarterOptions {
    std::string label;           // the column to predict
    std::string label_positive;  // value of the label that is 1, all others are 0
    std::string task;            // "binary", "classes" or "number"
    std::string weight;          // a column with the weights of rows
    std::string model;           // "wide_and_deep", "deepfm", "dcn_v2", ...
    std::vector<std::string> categories, numbers, skipped;  // columns
    Data valid;                                             // rows that evaluations read; or
    double holdout = -1;             // the share of rows that they read; 0: none
    int64_t sampled_rows = 200'000;  // rows to look at; 0: all
    Tuning tune;                     // `valid` is not read by it
  };

  struct Starter;

  // A field of a pipeline, or of a message in it.
  struct Field {
    std::string name;
    std::string type;  // "message", "text", "bool", "int", "float" or "choice"
    bool is_repeated = false;
    bool is_set = false;
    int64_t count = 0;  // elements of a repeated field
    // One per element of a list, else one (the default if it is not set); none for messages.
    std::vector<std::string> values;
    std::vector<std::string> choices;  // what a "choice" may be
  };

  // A value: copies are independent. Thread-compatible.
  class EMBLEM_API Pipeline {
   public:
    // Throws Error with one line: NAME:LINE:COLUMN, what is wrong, the nearest valid name.
    static Pipeline from_text(const std::string& text, const std::string& name = "pipeline");
    static Pipeline from_file(const std::string& path);

    // What `emblem init` writes for these rows: features, model and settings by what a sample of
    // them says. Throws Error for everything that would keep it from training.
    static Starter for_data(const Data& data, const StarterOptions& options);

    // Sets one field: set("train_config.num_epochs", "2"), set("feature_configs[0].id_feature.
    // embedding_dim", "8"). Throws Error that names the field, the value and the nearest valid
    // name.
    void set(const std::string& field, const std::string& value);

    // Removes a field, or an element: "feature_configs[2]". What is not set stays so.
    void remove(const std::string& field);

    // The fields of the message at `path` ("train_config", "feature_configs[0].id_feature"), "" for
    // those of the pipeline. Throws Error where there is no such message; one that is not set has
    // its fields with their defaults.
    std::vector<Field> fields(const std::string& path = "") const;

    // Text that from_text reads back, with the comments of its origin where nothing was set.
    std::string text() const;
    // Columns of the data that are labels.
    std::vector<std::string> labels() const;

    Pipeline(const Pipeline& other);
    Pipeline& operator=(const Pipeline& other);
    ~Pipeline();

    struct State;  // known to the library alone
    const State& state() const { return *state_; }

   private:
    explicit Pipeline(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };

  struct Starter {
    Pipeline pipeline;
    std::string summary;                // tables: the columns and what became of them; the search
    std::vector<std::string> warnings;  // a line each
  };

}  // namespace api
}  // namespace emblem
