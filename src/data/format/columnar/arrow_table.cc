#ifdef EMBLEM_WITH_ARROW
#include "data/format/columnar/arrow_table.h"

#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include "data/format/columnar/arrow_input.h"

namespace emblem {

std::shared_ptr<const ColumnTable> table_of(const arrow::RecordBatch& batch,
                                            const std::string& place) {
  require_ok(batch.ValidateFull(), place);
  ArrowArray array{};
  ArrowSchema schema{};
  require_ok(arrow::ExportRecordBatch(batch, &array, &schema), place);
  return ColumnTable::of_batch(&schema, &array);
}

std::vector<ArrayField> array_fields_of(const arrow::Schema& schema, const std::string& place) {
  ArrowSchema exported{};
  require_ok(arrow::ExportSchema(schema, &exported), place);
  std::vector<ArrayField> fields = array_fields(exported);
  exported.release(&exported);
  for (ArrayField& field : fields)
    if (field.field.type == LeafType::kOther && field.path.size() == 1)
      field.field.type_text = schema.field(field.path[0])->type()->ToString();
  return fields;
}

}  // namespace emblem
#endif
