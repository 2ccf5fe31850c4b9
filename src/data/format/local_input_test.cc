#include "data/format/local_input.h"

#include <gmock/gmock.h>

#include <fstream>

#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class LocalInput : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path(name)) << text;
    return folder_.path(name);
  }
  config::PipelineConfig pipeline(config::DatasetType type, const std::string& train) const {
    config::PipelineConfig config;
    config.set_train_input_path(train);
    config.mutable_data_config()->set_dataset_type(type);
    config.mutable_data_config()->add_label_fields("clk");
    return config;
  }

  TempFolder folder_;
};

TEST_F(LocalInput, FilesAreReadAsWhatTheyAre) {
  const std::string csv = file("a.csv", "clk;x\n0;1\n1;2\n");
  for (const auto type :
       {config::OdpsDataset, config::OdpsDatasetV1, config::ParquetDataset, config::KafkaDataset}) {
    config::PipelineConfig config = pipeline(type, csv);
    follow_local_files(&config);
    EXPECT_EQ(config.data_config().dataset_type(), config::CsvDataset);
    EXPECT_EQ(config.data_config().delimiter(), ";");
    EXPECT_TRUE(config.data_config().with_header());
  }
  config::PipelineConfig libfm = pipeline(config::OdpsDataset, file("a.libfm", "1 3:1\n"));
  follow_local_files(&libfm);
  EXPECT_EQ(libfm.data_config().dataset_type(), config::LibfmDataset);
}

TEST_F(LocalInput, AnEvaluationHasFilesOfItsOwn) {
  config::PipelineConfig config = pipeline(config::OdpsDataset, "odps://p/tables/t");
  config.set_eval_input_path(file("a.csv", "clk,x\n0,1\n"));
  follow_local_files(&config);
  EXPECT_EQ(config.data_config().dataset_type(), config::CsvDataset);
}

TEST_F(LocalInput, OtherDataOfAModelMayHaveAnotherFormat) {
  const auto followed = [](config::DatasetType type, const std::string& path) {
    config::DataConfig data;
    data.set_dataset_type(type);
    const bool changed = follow_input(path, &data);
    EXPECT_EQ(changed, data.dataset_type() != type);
    return data.dataset_type();
  };
  const std::string csv = file("a.csv", "clk;x\n0;1\n1;2\n"),
                    parquet = file("b", std::string("PAR1\0\0", 6));
  EXPECT_EQ(followed(config::CsvDataset, parquet), config::ParquetDataset);
  EXPECT_EQ(followed(config::ParquetDataset, csv), config::CsvDataset);
  EXPECT_EQ(followed(config::RawDataset, csv), config::CsvDataset);
  EXPECT_EQ(followed(config::CriteoTsvDataset, csv), config::CsvDataset) << "it has a header";
  EXPECT_EQ(followed(config::ParquetDataset, parquet), config::ParquetDataset);
  // Text of the configured format, whatever it is called.
  const std::string tsv = file("c.csv", "1\t2\t0000000a\n"), text = file("d", "clk,x\n");
  EXPECT_EQ(followed(config::CriteoTsvDataset, tsv), config::CriteoTsvDataset);
  EXPECT_EQ(followed(config::CsvDataset, tsv), config::CsvDataset);
  EXPECT_EQ(followed(config::CsvDataset, text), config::CsvDataset);
  std::string many = csv;  // longer than a path may be
  for (int i = 0; i < 500; ++i) many += "," + csv;
  EXPECT_EQ(followed(config::CsvDataset, many), config::CsvDataset);
  EXPECT_EQ(followed(config::CsvDataset, ""), config::CsvDataset);
  EXPECT_EQ(followed(config::CsvDataset, "odps://p/tables/t"), config::CsvDataset);
}

TEST_F(LocalInput, OtherTypesAndTablesStay) {
  config::PipelineConfig raw = pipeline(config::RawDataset, file("a.csv", "clk,x\n0,1\n"));
  follow_local_files(&raw);
  EXPECT_EQ(raw.data_config().dataset_type(), config::RawDataset);
  config::PipelineConfig remote = pipeline(config::OdpsDataset, "odps://p/tables/t");
  follow_local_files(&remote);
  EXPECT_EQ(remote.data_config().dataset_type(), config::OdpsDataset);
}

TEST_F(LocalInput, WhatCannotBeReadIsNamed) {
  const std::string binary("\0\0\0", 3);
  EXPECT_EQ(dataset_type_for(file("a.parquet", "PAR1")), config::ParquetDataset);
  EXPECT_EQ(dataset_type_for(file("b.dat", "PAR1" + binary)), config::ParquetDataset);
  EXPECT_EQ(dataset_type_for(file("c.dat", "ORC" + binary)), config::OrcDataset);
  EXPECT_EQ(dataset_type_for(file("d.dat", "ARROW1" + binary)), config::ArrowDataset);
  EXPECT_EQ(dataset_type_for(file("e.dat", "ORC,price\n1,2\n")), config::CsvDataset);
  EXPECT_NO_THROW(require_local("train_input_path", "/data", "--train-input"));
  EXPECT_THAT([] { require_local("train_input_path", "odps://p/t", "--train-input"); },
              ThrowsMessage<Error>(
                  "train_input_path is \"odps://p/t\", a table of a service that Emblem does not "
                  "read; give files with --train-input PATH"));
}

}  // namespace
}  // namespace emblem
