// Files that are compressed, or are not text.
#include "data/format/text/text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "data/format/file_kind.h"
#include "data/format/reader.h"
#include "data/test_data.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string content_of(const InputFile& file) {
  std::string content(static_cast<size_t>(file.bytes()), '\0');
  file.read(0, file.bytes(), content.data());
  return content;
}

std::string opened(const std::string& path) { return content_of(open_text_files({path}, 1)[0]); }

std::string file_error(const std::string& path) {
  try {
    opened(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct Compressor {
  const char* program;
  const char* ending;
};

class Compressed : public testing::TestWithParam<Compressor> {
 protected:
  void SetUp() override {
    if (std::system((std::string(GetParam().program) + " --version > /dev/null 2>&1").c_str()) != 0)
      GTEST_SKIP() << GetParam().program << " is not installed";
  }
  std::string compress(const std::string& name, const std::string& content) {
    const std::string plain = folder_.write(name, content), packed = plain + GetParam().ending;
    const std::string command =
        std::string(GetParam().program) + " -c '" + plain + "' > '" + packed + "'";
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::filesystem::remove(plain);
    return packed;
  }
  static std::string bytes_of(const std::string& path) { return content_of(InputFile(path)); }
  TempFolder folder_;
};

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += std::to_string(i) + "," + std::to_string(i * 7919 % 104729) + "\n";
  return text;
}

TEST_P(Compressed, IsReadAsItsContent) {
  const std::string text = lines(100000);
  EXPECT_EQ(opened(compress("a.csv", text)), text);
  EXPECT_EQ(read_text_start(folder_.path("a.csv") + GetParam().ending, 100), text.substr(0, 100));
  EXPECT_EQ(opened(compress("one.csv", "x")), "x");
}

TEST_P(Compressed, HighlyCompressibleContentIsWhole) {
  const std::string text(3 << 20, 'a');
  EXPECT_EQ(opened(compress("zeros.csv", text)), text);
}

TEST_P(Compressed, ConcatenatedArchivesAreOneText) {
  const std::string both =
      bytes_of(compress("a.csv", lines(10))) + bytes_of(compress("b.csv", lines(20)));
  EXPECT_EQ(opened(folder_.write("both", both)), lines(10) + lines(20));
}

TEST_P(Compressed, ManyFilesAreDecompressedSideBySide) {
  std::vector<std::string> paths, texts;
  for (int i = 0; i < 7; ++i) {
    texts.push_back(lines(10 + i));
    paths.push_back(i % 3 == 2 ? folder_.write("plain" + std::to_string(i), texts.back())
                               : compress("f" + std::to_string(i), texts.back()));
  }
  const std::vector<InputFile> files = open_text_files(paths, 4);
  ASSERT_EQ(files.size(), paths.size());
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(files[i].path(), paths[i]);
    EXPECT_EQ(content_of(files[i]), texts[i]);
  }
}

TEST_P(Compressed, TruncationAndCorruptionAreNamed) {
  const std::string packed = bytes_of(compress("a.csv", lines(5000)));
  for (const size_t kept : {packed.size() / 2, packed.size() - 1, size_t{20}}) {
    const std::string path = folder_.write("cut", packed.substr(0, kept));
    EXPECT_THAT(file_error(path), testing::StartsWith(path + " is a truncated ")) << kept;
  }
  std::string broken = packed;
  for (size_t i = 0; i < 64; ++i) broken[broken.size() / 2 + i] = '\x5a';
  const std::string path = folder_.write("broken", broken);
  EXPECT_THAT(file_error(path), testing::StartsWith(path + " is a corrupt "));
}

TEST_P(Compressed, EmptyAndDoublyCompressedFilesAreRefused) {
  LoaderOptions options;
  options.input = compress("none.csv", "");
  const TestPipeline pipeline(
      R"(data_config { fg_mode: FG_DAG with_header: true }
         feature_configs { raw_feature { feature_name: "n" } })");
  EXPECT_THAT(loader_error(pipeline, options), HasSubstr("is empty"));
  const std::string once = bytes_of(compress("a.csv", lines(10)));
  EXPECT_THAT(file_error(compress("twice", once)), HasSubstr("is compressed twice"));
}

TEST_P(Compressed, ATemporaryFolderThatCannotBeWrittenIsNamed) {
  const std::string path = compress("a.csv", lines(10));
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", "/nowhere/at/all", 1);
  EXPECT_THAT(file_error(path), HasSubstr("into /nowhere/at/all: No such file or directory"));
  if (before == nullptr)
    ::unsetenv("TMPDIR");
  else
    ::setenv("TMPDIR", kept.c_str(), 1);
}

// All that a loader gives out of compressed files is what it gives out of their content: rows,
// positions, shuffles, and where it continues.
TEST_P(Compressed, BatchesAndPositionsAreThoseOfTheContent) {
  const TestPipeline pipeline(R"(
    data_config { dataset_type: CriteoTsvDataset fg_mode: FG_DAG num_dense: 2 num_sparse: 3 }
    feature_configs { raw_feature { feature_name: "I{1..2}" } }
    feature_configs { id_feature { feature_name: "C{1..3}" embedding_dim: 4 dynamicemb { max_capacity: 10 } } })");
  const std::string a = as_tsv(random_rows(900, 1)), b = as_tsv(random_rows(450, 2));
  folder_.write("plain/a.tsv", a);
  folder_.write("plain/b.tsv", b);
  compress("packed/a.tsv", a);
  compress("packed/b.tsv", b);
  LoaderOptions options;
  options.batch_size = 32;
  options.piece_bytes = 700;
  options.epochs = 2;
  for (const bool shuffle : {false, true}) {
    options.shuffle = shuffle;
    options.shuffle_rows = shuffle ? 200 : 0;
    options.workers = 1;
    options.input = folder_.path("plain");
    const std::vector<SeenBatch> plain = read_all(pipeline, options);
    options.workers = 3;
    options.input = folder_.path("packed");
    options.start = {};
    const std::vector<SeenBatch> packed = read_all(pipeline, options);
    ASSERT_EQ(plain.size(), packed.size());
    for (size_t i = 0; i < plain.size(); ++i) ASSERT_EQ(plain[i].content, packed[i].content) << i;
    options.start = plain[40].next;
    const std::vector<SeenBatch> resumed = read_all(pipeline, options);
    ASSERT_EQ(resumed.size() + 41, plain.size());
    EXPECT_EQ(resumed.front().content, plain[41].content);
    options.start = {};
  }
}

TEST_P(Compressed, BadRowsAreNamedByTheirLine) {
  const TestPipeline pipeline(R"(data_config { with_header: true fg_mode: FG_DAG }
    feature_configs { raw_feature { feature_name: "n" } })");
  LoaderOptions options;
  options.input = compress("a.csv", "label,n\n1,2\n0,x\n");
  EXPECT_THAT(loader_error(pipeline, options),
              HasSubstr("a.csv" + std::string(GetParam().ending) + ":3: column n"));
}

TEST_P(Compressed, FormatsAreGuessedByTheContent) {
  const DataSource csv = guess_source(compress("a.csv", "label;n\n1;2\n"));
  EXPECT_EQ(csv.type, config::CsvDataset);
  EXPECT_EQ(csv.delimiter, ";");
  EXPECT_TRUE(csv.with_header);
  EXPECT_EQ(guess_format(compress("b.txt", "1 5:1 7:1\n0 2:1 3:1\n")), config::LibfmDataset);
}

TEST_P(Compressed, BinaryFormatsAreNotReadCompressed) {
  DataSource source;
  source.type = config::RawDataset;
  source.input = compress("a.bin", std::string(160, '\1'));
  EXPECT_THAT(
      [&] { open_reader(source); },
      ThrowsMessage<Error>(HasSubstr("is compressed; only text formats are read compressed")));
}

INSTANTIATE_TEST_SUITE_P(TextFile, Compressed,
                         testing::Values(Compressor{"gzip", ".gz"}, Compressor{"zstd", ".zst"}),
                         [](const auto& info) { return std::string(info.param.program); });

TEST(TextFile, WhatIsNotTextIsNamed) {
  const TempFolder folder;
  const auto verdict = [&](const std::string& bytes) {
    std::string message = file_error(folder.write("f", bytes));
    return message.substr(message.find("/f ") == std::string::npos ? 0 : message.find("/f ") + 3);
  };
  const auto zeros = [](std::string start) { return start + std::string(20, '\0'); };
  EXPECT_EQ(verdict("\xff\xfel\0a\0"),
            "is UTF-16 text; convert it to UTF-8: iconv -f UTF-16 -t UTF-8");
  EXPECT_EQ(verdict(std::string("l\0a\0b\0e\0l\0,\0n\0\n\0", 16)),
            "is UTF-16 text; convert it to UTF-8: iconv -f UTF-16 -t UTF-8");
  EXPECT_EQ(verdict(zeros("PAR1")), "is Parquet; set data_config { dataset_type: ParquetDataset }");
  EXPECT_EQ(verdict(zeros("BZh9")), "is compressed by bzip2; decompress it first: bunzip2");
  EXPECT_EQ(verdict(zeros("\xfd"
                          "7zXZ")),
            "is compressed by xz; decompress it first: unxz");
  EXPECT_EQ(verdict(zeros("PK\x03\x04")), "is a zip archive; unpack it first: unzip");
  const std::string archive = "PK\x03\x04" + std::string(26, '\0');
  EXPECT_EQ(verdict(archive + "[Content_Types].xml"),
            "is a spreadsheet of Excel; save it as CSV (UTF-8) there");
  EXPECT_EQ(verdict(archive + "mimetypeapplication/vnd.oasis.opendocument.spreadsheet"),
            "is a spreadsheet of LibreOffice; save it as CSV (UTF-8) there");
  EXPECT_EQ(verdict(zeros("\xd0\xcf\x11\xe0")),
            "is a spreadsheet of Excel; save it as CSV (UTF-8) there");
  for (const char* json : {"{\"label\": 1}\n{\"label\": 0}\n", "[{\"label\": 1}, {\"label\": 0}]",
                           "[\n  {\n    \"label\": 1\n  }\n]\n", "{\n \"label\": [1, 0]\n}\n"})
    EXPECT_EQ(verdict(json), "is JSON; convert it to CSV first") << json;
  EXPECT_EQ(verdict("{\"a\": 1}\t5\n{}\t6\n"), "no error") << "a column of JSON";
  EXPECT_THAT(verdict("<!DOCTYPE html>\n<html>"), HasSubstr("is a page of HTML; was the download"));
  EXPECT_EQ(verdict("\xef\xbb\xbf<?xml version=\"1.0\"?>\n<a/>"),
            "is XML; convert it to CSV first");
  EXPECT_THAT(verdict(zeros("1,2,3")), HasSubstr("is not text: it has bytes 0"));
  EXPECT_EQ(verdict("ORC,1\n2,3\n"), "no error") << "a word may begin like a format";
  EXPECT_EQ(verdict("a\x01 b\x02 c\x03\n"), "no error") << "separators of other systems";
}

TEST(TextFile, LineEndsOfOldMacintoshesAreNamed) {
  const TempFolder folder;
  EXPECT_THAT(file_error(folder.write("a.csv", "clk,n\r1,2\r0,3\r")),
              HasSubstr("a.csv: line ends are CR only; convert them: tr '\\r' '\\n' < "));
  EXPECT_EQ(file_error(folder.write("b.csv", "clk,n\r\n1,2\r\n")), "no error");
  EXPECT_EQ(file_error(folder.write("c.csv", "1,2\r")), "no error") << "one line";
}

TEST(TextFile, OtherEncodingsAreReadWithOneWarning) {
  const TempFolder folder;
  const TestPipeline pipeline(R"(data_config { with_header: true fg_mode: FG_DAG }
    feature_configs { id_feature { feature_name: "c" hash_bucket_size: 9 embedding_dim: 4 } })");
  LoaderOptions options;
  options.input = folder.write("a.csv", "label,c\n1,a\n0,K\xf6ln\n");
  testing::internal::CaptureStderr();
  read_all(pipeline, options);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("a.csv:3 is not UTF-8 (byte 0xf6); convert it: iconv -f CP1252 -t UTF-8 "));
  testing::internal::CaptureStderr();
  read_all(pipeline, options);
  options.input = folder.write("b.csv", "label,c\n1,a\n0,K\xc3\xb6ln\n");
  read_all(pipeline, options);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(TextFile, ACharacterThatTheEndOfThePartCutsIsUtf8) {
  for (size_t before = kEncodingBytes - 4; before <= kEncodingBytes; ++before) {
    const std::string text = std::string(before, 'a') + "\xf0\x9f\x98\x80\n";
    EXPECT_EQ(not_utf8_problem(std::string_view(text).substr(0, kEncodingBytes), "a.csv"), "");
  }
}

TEST(TextFile, TheDelimiterThatExcelIsToldIsNotPartOfTheText) {
  const TempFolder folder;
  const TestPipeline pipeline(R"(data_config { with_header: true fg_mode: FG_DAG delimiter: ";" }
    feature_configs { raw_feature { feature_name: "n" } })");
  LoaderOptions options;
  for (const char* begin : {"sep=;\r\n", "sep=;\n", "\xef\xbb\xbfsep=;\r\n"}) {
    options.input = folder.write("a.csv", cat(begin, "label;n\n1;2\n0;3\n"));
    const std::vector<SeenBatch> seen = read_all(pipeline, options);
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_THAT(seen[0].content, HasSubstr("rows 2"));
    EXPECT_EQ(guess_source(options.input).delimiter, ";");
  }
  EXPECT_EQ(read_text_start(folder.write("b.csv", "sep=1\n"), 9), "") << "a line of its own";
  EXPECT_EQ(read_text_start(folder.write("c.csv", "sep=x;y\n"), 9), "sep=x;y\n");
}

TEST(TextFile, AByteOrderMarkIsNotPartOfTheText) {
  const TempFolder folder;
  const TestPipeline pipeline(R"(data_config { with_header: true fg_mode: FG_DAG }
    feature_configs { raw_feature { feature_name: "n" } })");
  LoaderOptions options;
  options.input = folder.write("a.csv", "\xef\xbb\xbflabel,n\n1,2\n0,3\n");
  EXPECT_EQ(read_all(pipeline, options).size(), 1u);
  const TestPipeline bare(
      R"(data_config { fg_mode: FG_DAG input_fields { input_name: "label" } input_fields { input_name: "n" } }
    feature_configs { raw_feature { feature_name: "n" } })");
  options.input = folder.write("b.csv",
                               "\xef\xbb\xbf"
                               "1,2\n0,3\n");
  const std::vector<SeenBatch> seen = read_all(bare, options);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_THAT(seen[0].content, HasSubstr("rows 2"));
  EXPECT_EQ(read_text_start(options.input, 3), "1,2");
  EXPECT_THAT(file_error(folder.write("c.csv", "\xef\xbb\xbf")), "no error");
  options.input = folder.path("c.csv");
  EXPECT_THAT(loader_error(bare, options), HasSubstr("is empty"));
}

}  // namespace
}  // namespace emblem
