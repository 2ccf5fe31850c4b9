#ifdef EMBLEM_WITH_ARROW
#include "data/format/parquet_pages.h"

#include <parquet/column_page.h>
#include <parquet/column_reader.h>

#include <utility>

namespace emblem {
namespace {

bool is_empty(const parquet::Page& page) {
  const bool has_data =
      page.type() == parquet::PageType::DATA_PAGE || page.type() == parquet::PageType::DATA_PAGE_V2;
  return has_data && static_cast<const parquet::DataPage&>(page).num_values() == 0;
}

class Pages final : public parquet::PageReader {
 public:
  explicit Pages(std::unique_ptr<parquet::PageReader> all) : all_(std::move(all)) {}

  std::shared_ptr<parquet::Page> NextPage() override {
    std::shared_ptr<parquet::Page> page = all_->NextPage();
    while (page != nullptr && is_empty(*page)) page = all_->NextPage();
    return page;
  }
  void set_max_page_header_size(uint32_t size) override { all_->set_max_page_header_size(size); }

 private:
  std::unique_ptr<parquet::PageReader> all_;
};

class Contents final : public parquet::RowGroupReader::Contents {
 public:
  Contents(std::shared_ptr<parquet::RowGroupReader> group,
           const parquet::ReaderProperties& properties)
      : group_(std::move(group)), properties_(properties) {}

  std::unique_ptr<parquet::PageReader> GetColumnPageReader(int column) override {
    return std::make_unique<Pages>(group_->GetColumnPageReader(column));
  }
  const parquet::RowGroupMetaData* metadata() const override { return group_->metadata(); }
  const parquet::ReaderProperties* properties() const override { return &properties_; }

 private:
  std::shared_ptr<parquet::RowGroupReader> group_;
  parquet::ReaderProperties properties_;
};

}  // namespace

std::shared_ptr<parquet::RowGroupReader> without_empty_pages(
    std::shared_ptr<parquet::RowGroupReader> group, const parquet::ReaderProperties& properties) {
  return std::make_shared<parquet::RowGroupReader>(
      std::make_unique<Contents>(std::move(group), properties));
}

}  // namespace emblem
#endif
