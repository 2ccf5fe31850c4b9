#include "data/loader/piece_order.h"

#include <gmock/gmock.h>

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
      EXPECT_EQ(pieces.count(), 3 + 1 + 2 + 1 + 5);
      EXPECT_EQ(pieces.size(), 25 + 5 + 20 + 7 + 50);
      std::set<std::pair<int, int64_t>> rows;
      for (int64_t i = 0; i < pieces.count(); ++i) {
        const Piece piece = pieces.at(2, i);
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
    for (int64_t i = 0; i < pieces.count();) {
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
  for (int64_t i = 0; i < pieces.count(); ++i) EXPECT_EQ(pieces.run_length(0, i), 1);
}

}  // namespace
}  // namespace emblem
