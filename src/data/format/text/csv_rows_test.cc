// Rows of CSV files whose fields hold line ends, against a plain writer, from pieces of any size.
#include "data/format/text/csv_rows.h"

#include <gmock/gmock.h>

#include "data/format/reader.h"
#include "data/format/text/csv_types.h"
#include "data/test_data.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> rows_of(const std::string& text) {
  std::vector<std::string> rows;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const char* const row_end = find_row_end(at, end, ",");
    rows.emplace_back(at, row_end);
    at = row_end + 1;
  }
  return rows;
}

TEST(CsvRows, EndOutsideOfQuotes) {
  EXPECT_THAT(rows_of("a,b\n\"c\nd\",e\nf,\"g\"\"\n\",\"\n\"\nh\n"),
              ElementsAre("a,b", "\"c\nd\",e", "f,\"g\"\"\n\",\"\n\"", "h"));
  EXPECT_THAT(rows_of("5\" disk\n6\" disk\n"), ElementsAre("5\" disk", "6\" disk"))
      << "a quote within a field is a character";
  EXPECT_THAT(rows_of("a,\"b\nc,d\ne,\"f\"\n"), ElementsAre("a,\"b", "c,d", "e,\"f\""))
      << "the next quote opens a field: the first one is not closed";
  EXPECT_THAT(rows_of("a,\"b\nc\n"), ElementsAre("a,\"b", "c")) << "nothing closes it";
  const std::string long_text(static_cast<size_t>(kMostQuotedBytes), 'x');
  EXPECT_EQ(rows_of("\"" + long_text + "\n\"\nb\n").size(), 3u) << "too long";
}

// Every place of a text gives the same row, whatever window it is looked at through.
TEST(CsvRows, BeginWhereTheyBeginFromEveryPlace) {
  const std::string text =
      "id,note\n1,\"one\ntwo, \"\"three\"\"\n\"\n2,plain\n3,\",\n,\"\n4,\"\"\n5,\"\"\"\n\"\n6,5\" "
      "disk\n"
      "7,\"\n\n\"\n";
  std::vector<int64_t> starts;
  for (int64_t at = 0; const std::string& row : rows_of(text)) {
    starts.push_back(at);
    at += static_cast<int64_t>(row.size()) + 1;
  }
  starts.push_back(static_cast<int64_t>(text.size()));
  ASSERT_EQ(starts.size(), 9u);
  const CsvWindow window{text.data(), text.data() + text.size(), true};
  for (int64_t at = 0; at <= static_cast<int64_t>(text.size()); ++at) {
    const char* const found = find_row_start(window, text.data() + at, ",");
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found - text.data(), *std::lower_bound(starts.begin(), starts.end(), at)) << at;
  }
}

struct Written {
  std::string text;
  std::vector<std::string> values;
};

// Fields of letters, quotes, delimiters and line ends.
Written random_csv(int rows, uint64_t seed) {
  Random random{seed, 5};
  const std::string alphabet = "abcdefg\n\n\",\r ";
  Written written{"id,x,y\r\n", {}};
  for (int row = 0; row < rows; ++row) {
    std::string value;
    for (uint64_t length = random.below(20); length > 0; --length)
      value += alphabet[random.below(alphabet.size())];
    std::string field = "\"";
    for (const char c : value) field += c == '"' ? std::string("\"\"") : std::string(1, c);
    const bool is_plain = value.find_first_of(",\"\r\n") == value.npos;
    written.text += cat(row, ",", is_plain && row % 2 == 0 ? value : field + "\"", ",end",
                        row % 3 == 0 ? "\r\n" : "\n");
    written.values.push_back(value);
  }
  return written;
}

TEST(CsvRows, ComeBackFromPiecesOfAnySize) {
  const TempFolder folder;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Written written = random_csv(300, seed);
    DataSource source;
    source.input = folder.write("a.csv", written.text);
    source.with_header = true;
    config::Field field;
    field.set_input_name("x");
    field.set_input_type(config::STRING);
    source.fields.push_back(field);
    const std::vector<ColumnRequest> requests = {{.name = "id", .type = ColumnType::kInt64},
                                                 {.name = "x", .type = ColumnType::kText}};
    const auto decoder = make_decoder(source, &requests);
    for (const int64_t size : {1, 7, 30, 1000}) {
      std::vector<std::string> found;
      DecodedPiece piece;
      for (int64_t at = decoder->extent(0).begin; at < decoder->extent(0).end; at += size) {
        decoder->decode(0, {at, std::min(decoder->extent(0).end, at + size)}, {}, nullptr, piece);
        ASSERT_EQ(piece.bad.count, 0) << piece.bad.what;
        for (size_t i = 0; i < static_cast<size_t>(piece.block.rows); ++i) {
          ASSERT_EQ(piece.block.columns[0].ints[i], static_cast<int64_t>(found.size()));
          const Column& column = piece.block.columns[1];
          const size_t begin = i == 0 ? 0 : column.text_ends[i - 1];
          found.push_back(column.text.substr(begin, column.text_ends[i] - begin));
        }
      }
      EXPECT_EQ(found, written.values) << "pieces of " << size << " bytes, seed " << seed;
    }
  }
}

TEST(CsvRows, AreFoundByTheGuessOfAFormat) {
  const TempFolder folder;
  const DataSource source =
      guess_source(folder.write("a.csv", "\"the\nid\";note\n1;\"a\nb\"\n2;\"c;d\n\ne\"\n"));
  EXPECT_EQ(source.delimiter, ";");
  EXPECT_TRUE(source.with_header);
  EXPECT_THAT(csv_names(source), ElementsAre("the\nid", "note"));
  const auto reader = open_reader(source);
  Block block;
  ASSERT_TRUE(reader->next(block));
  EXPECT_EQ(block.rows, 2);
  EXPECT_EQ(block.columns[1].text, "a\nbc;d\n\ne");
}

}  // namespace
}  // namespace emblem
