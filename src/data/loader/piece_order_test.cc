#include "data/loader/piece_order.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace emblem {
namespace {

// Files of parts, without contents.
class PartsOnly final : public Decoder {
 public:
  PartsOnly(std::vector<std::vector<Extent>> files, bool forward)
      : parts_(std::move(files)), forward_(forward), names_(parts_.size(), "file") {}

  const std::vector<ColumnSpec>& columns() const override { return columns_; }
  const std::vector<std::string>& files() const override { return names_; }
  ExtentUnit unit() const override { return ExtentUnit::kRecords; }
  Extent extent(int file) const override {
    return {0, parts_[static_cast<size_t>(file)].back().end};
  }
  std::vector<Extent> parts(int file) const override { return parts_[static_cast<size_t>(file)]; }
  bool reads_forward() const override { return forward_; }
  int64_t file_bytes(int) const override { return 1; }
  std::string read_directly() override { return ""; }
  void decode(int, Extent, const RowSample&, const Random*, DecodedPiece&) const override {}
  std::string locate(int, int64_t) const override { return ""; }

 private:
  std::vector<std::vector<Extent>> parts_;
  bool forward_;
  std::vector<std::string> names_;
  std::vector<ColumnSpec> columns_;
};

const std::vector<std::vector<Extent>> kFiles = {{{0, 25}, {25, 30}, {40, 60}}, {{0, 7}, {7, 57}}};

// Every row of the parts once, whatever the order; none of the rows between parts.
TEST(PieceOrder, PiecesCoverThePartsAndCrossNone) {
  for (const bool forward : {false, true}) {
    for (const ReadOrder order : {ReadOrder::kAsStored, ReadOrder::kShuffled}) {
      PieceOrder pieces(PartsOnly(kFiles, forward), 10, order, 3);
      EXPECT_EQ(pieces.count(2), 3 + 1 + 2 + 1 + 5);
      EXPECT_EQ(pieces.size(2), 25 + 5 + 20 + 7 + 50);
      std::set<std::pair<int, int64_t>> rows;
      for (int64_t i = 0; i < pieces.count(2); ++i) {
        const FilePiece piece = pieces.at(2, i);
        const auto& parts = kFiles[static_cast<size_t>(piece.file)];
        EXPECT_TRUE(std::any_of(parts.begin(), parts.end(), [&](const Extent& part) {
          return part.begin <= piece.range.begin && piece.range.end <= part.end;
        }));
        for (int64_t row = piece.range.begin; row < piece.range.end; ++row)
          EXPECT_TRUE(rows.emplace(piece.file, row).second);
      }
      EXPECT_EQ(rows.size(), 107u);
    }
  }
}

TEST(PieceOrder, ThePiecesOfAPartFollowEachOtherWhereTheyAreReadForward) {
  PieceOrder pieces(PartsOnly(kFiles, true), 10, ReadOrder::kShuffled, 3);
  std::set<int64_t> first_parts;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    first_parts.insert(pieces.run_length(epoch, 0));
    for (int64_t i = 0; i < pieces.count(epoch);) {
      const int64_t run = pieces.run_length(epoch, i);
      for (int64_t k = 1; k < run; ++k) {
        EXPECT_EQ(pieces.at(epoch, i + k).range.begin, pieces.at(epoch, i + k - 1).range.end);
        EXPECT_EQ(pieces.run_length(epoch, i + k), run - k);
      }
      i += run;
    }
  }
  EXPECT_GT(first_parts.size(), 2u);
}

TEST(PieceOrder, OtherPiecesAreDecodedOneByOne) {
  PieceOrder pieces(PartsOnly(kFiles, false), 10, ReadOrder::kAsStored, 3);
  for (int64_t i = 0; i < pieces.count(0); ++i) EXPECT_EQ(pieces.run_length(0, i), 1);
}

// The pieces of all streams, one of each in turn.
std::vector<FilePiece> pieces_of_streams(const Decoder& decoder, ReadOrder order, int64_t streams,
                                         int64_t epoch) {
  std::vector<PieceOrder> orders;
  int64_t most = 0;
  for (int64_t s = 0; s < streams; ++s) {
    orders.emplace_back(decoder, 5, order, 3, StreamShare{s, streams});
    most = std::max(most, orders.back().count(epoch));
  }
  std::vector<FilePiece> pieces;
  for (int64_t i = 0; i < most; ++i)
    for (PieceOrder& of_stream : orders)
      if (i < of_stream.count(epoch)) pieces.push_back(of_stream.at(epoch, i));
  return pieces;
}

// Records in the order of the pieces, each as file * 1000 + record.
std::vector<int64_t> records_of(const std::vector<FilePiece>& pieces) {
  std::vector<int64_t> records;
  for (const FilePiece& piece : pieces)
    for (int64_t i = piece.range.begin; i < piece.range.end; ++i)
      records.push_back(piece.file * 1000 + i);
  return records;
}

TEST(PieceOrder, StreamsTakeThePiecesOfOneOrderInTurn) {
  const PartsOnly decoder(kFiles, false);
  const std::vector<int64_t> stored =
      records_of(pieces_of_streams(decoder, ReadOrder::kAsStored, 1, 0));
  EXPECT_EQ(stored.size(), 107u);
  for (const int64_t streams : {2, 3, 8, 100}) {
    EXPECT_EQ(records_of(pieces_of_streams(decoder, ReadOrder::kAsStored, streams, 2)), stored);
    std::vector<int64_t> shuffled =
        records_of(pieces_of_streams(decoder, ReadOrder::kShuffled, streams, 2));
    EXPECT_NE(shuffled, records_of(pieces_of_streams(decoder, ReadOrder::kShuffled, streams, 3)));
    EXPECT_NE(shuffled, stored);
    std::sort(shuffled.begin(), shuffled.end());
    EXPECT_EQ(shuffled, stored);
  }
}

TEST(PieceOrder, StreamsShareForwardPartsInRunsWithoutLosingAny) {
  const PartsOnly decoder(kFiles, true);
  const std::vector<int64_t> stored =
      records_of(pieces_of_streams(decoder, ReadOrder::kAsStored, 1, 0));
  for (const ReadOrder order : {ReadOrder::kAsStored, ReadOrder::kShuffled}) {
    for (const int64_t streams : {2, 3, 8, 100}) {
      std::vector<int64_t> records = records_of(pieces_of_streams(decoder, order, streams, 4));
      std::sort(records.begin(), records.end());
      EXPECT_EQ(records, stored) << streams;
    }
  }
  PieceOrder two(decoder, 1, ReadOrder::kAsStored, 3, {0, 2});
  EXPECT_EQ(two.run_length(0, 0), 13) << "runs are as long as balance allows";
}

TEST(PieceOrder, PiecesAreSmallerWhereStreamsWouldHaveTooFew) {
  const PartsOnly decoder(kFiles, false);  // 5 parts, 107 records
  EXPECT_EQ(piece_size_for(decoder, 50, 1), 50);
  EXPECT_EQ(piece_size_for(decoder, 50, 2), 107 / 8);
  EXPECT_EQ(piece_size_for(decoder, 10, 2), 10) << "there are 12 of them";
  EXPECT_EQ(piece_size_for(decoder, 50, 100), 1);
}

// Parts that are a little larger than a piece do not give one stream all the large pieces and
// the next one the small ends.
TEST(PieceOrder, StreamsHaveSharesOfEqualSize) {
  for (const bool forward : {false, true}) {
    const PartsOnly decoder({std::vector<Extent>{{0, 64}, {64, 128}, {128, 192}, {192, 256}}},
                            forward);
    for (int64_t stream = 0; stream < 2; ++stream) {
      PieceOrder pieces(decoder, 60, ReadOrder::kAsStored, 1, {stream, 2});
      EXPECT_EQ(pieces.size(0), 128);
    }
  }
}

}  // namespace
}  // namespace emblem
