// train/rank_pass.h - what the passes of several ranks over a data set found.
#pragma once

#include "comm/communicator.h"
#include "core/byte_io.h"
#include "train/prediction_pass.h"

namespace emblem {

void write_lookups(ByteWriter& bytes, const std::vector<FeatureLookups>& lookups);
std::vector<FeatureLookups> read_lookups(ByteReader& bytes);

void write_pass(ByteWriter& bytes, const PredictionPass& pass);
// Reads what write_pass has written, and adds it to `sum`.
void read_pass(ByteReader& bytes, PredictionPass& sum);

// The sum over all ranks, on all of them. Collective.
PredictionPass sum_passes(Communicator& ranks, const PredictionPass& mine);

// Throws CommonError where all ranks together have more bad rows than `options` allows; `sum` is
// equal on all.
void check_bad_rows(const PredictionPass& sum, const LoaderOptions& options);

}  // namespace emblem
