// emblem/predictor.h - a trained model as a function: batches in memory in, predictions out, again
// and again, from several threads at once. For an answer per request inside of a program; Model
// reads files and data of any size, evaluates, and computes on a GPU.
//
//   const Predictor predictor("model");
//   std::vector<float> scores;               // kept between calls
//   predictor.predict(Data::columns({{.name = "user", .values = users}}), scores);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emblem/api.h"
#include "emblem/data.h"

namespace emblem {
EMBLEM_PUBLIC {
  struct PredictorOptions {
    // Outputs of the model by name, as "probs_ctr"; empty: a probability, number or class
    // probabilities of each tower.
    std::vector<std::string> outputs;
    int threads = 1;            // compute threads of each call, 1 to 1024
    std::string precision;      // of layers: "fp32", "bf16"; empty: fp32, whatever the training had
    std::string row_precision;  // of rows in memory: "fp32", "bf16", "fp16", "int8"; empty: fp32
  };

  // Computes on a CPU. Predictions are those of a server of the model, and those of Model where it
  // computes in the same precision, but for the last bits.
  //
  // Thread-safe: as many calls run at once as threads make them. All share the weights of the
  // tables; each has buffers, a copy of the dense weights and threads, which are kept for the next
  // call. Once as many calls have run at once as ever will, with the largest batch, buffers grow no
  // more; a call still allocates a little for its Data and for reading them.
  class EMBLEM_API Predictor {
   public:
    // A checkpoint, or a model dir: its latest one; addresses of stores are fetched first. Holds a
    // copy of what it needs: a training may go on and remove the checkpoint. Throws Error.
    explicit Predictor(const std::string& checkpoint, const PredictorOptions& options = {});
    ~Predictor();
    Predictor(Predictor&&) noexcept;
    Predictor& operator=(Predictor&&) noexcept;

    // Names of what predict gives for a row; "prediction" for a model of one number.
    const std::vector<std::string>& columns() const;

    // Overwrites `values` with [rows, columns()], in the order of the rows. `rows` are in memory,
    // each time with the columns and types of the first time; labels are not read. Throws Error
    // that names the column or the row where one cannot be read; `values` then mean nothing.
    void predict(const Data& rows, std::vector<float>& values) const;

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

}  // namespace api
}  // namespace emblem
