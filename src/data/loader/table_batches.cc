#include "data/loader/table_batches.h"

#include "config/feature/items.h"
#include "data/feature/column_requests.h"
#include "data/format/memory/table_file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

config::DataConfig with_types(config::DataConfig data) {
  data.set_dataset_type(config::ArrowDataset);
  return data;
}

}  // namespace

struct TableBatches::Reader {
  std::shared_ptr<const ColumnSelection> selection;
  FeatureTransform transform;
  DecodedPiece piece;
};

TableBatches::TableBatches(const config::DataConfig& data, const FeatureLayout& features,
                           LabelCheck labels)
    : data_(with_types(data)), features_(features), labels_(labels) {
  EMBLEM_REQUIRE(!data.has_tdm_sampler() || labels == LabelCheck::kIgnore,
                 "data_config.tdm_sampler adds rows to batches that a loader reads, not to a table "
                 "that is given at once; train with files, or with a source of tables");
  EMBLEM_REQUIRE(items_in(features) < 0,
                 "a sampler of data_config adds items to batches that a loader reads, not to "
                 "a table that is given at once; set in_batch_negative: true without a sampler");
  if (features.candidates.have_frequency && labels != LabelCheck::kIgnore)
    draws_ = std::make_unique<CandidateDraws>(data, features, Storage());
}

TableBatches::~TableBatches() = default;

void TableBatches::make(const std::shared_ptr<const ColumnTable>& table, Batch& batch) {
  constexpr const char* kName = "the table in memory";
  EMBLEM_REQUIRE(table != nullptr && table->rows() > 0, kName, " has no rows");
  if (reader_ == nullptr) {
    const std::vector<ColumnRequest> requests = columns_needed(data_, features_, labels_);
    const auto decoder = make_table_decoder(source_of(data_, kName), &requests, {table});
    reader_.reset(new Reader{decoder->selection(),
                             FeatureTransform(data_, features_, labels_, requests,
                                              decoder->columns(), BadRowHandling::kSkip),
                             {}});
  }
  std::vector<std::unique_ptr<ColumnarFile>> files;
  files.push_back(open_table(table, kName));
  const ColumnarDecoder decoder(reader_->selection, std::move(files), {});
  DecodedPiece& piece = reader_->piece;
  decoder.decode(0, decoder.extent(0), {}, nullptr, piece);
  reader_->transform.apply(piece, batch);
  piece.cursor.reset();  // the table is not needed any more
  if (piece.bad.count > 0)
    throw too_many_bad_rows(piece.bad.count, 0, decoder.describe(0, piece.bad));
  if (draws_ != nullptr) draws_->add_logs(batch);
  batch.next = {};
  batch.last_in_epoch = false;
}

}  // namespace emblem
