#include "data/format/rows/trained_fit.h"

#include <limits>

#include "data/format/text/number_text.h"
#include "data/format/text/time_text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// The type of the Column that is read for a request where nothing is known of the training.
ColumnType requested_type(LeafType leaf, const ColumnRequest& request) {
  switch (leaf) {
    case LeafType::kInteger:
      return request.type == ColumnType::kFloat ? ColumnType::kFloat : ColumnType::kInt64;
    case LeafType::kUnsigned:  // as text it is not what its bits are as a signed number
    case LeafType::kDouble:    // ids above 2^24 would not survive as a float
      return request.type;
    case LeafType::kFloat:
      return ColumnType::kFloat;
    case LeafType::kText:
    case LeafType::kOther:
      break;
  }
  return ColumnType::kText;
}

// Whether numbers of `found` have to become text to be what `trained` values were. Integers in
// decimal, and floats, are hashed as their text without being written.
bool must_be_text(const ValueType& found, const TrainedValues& trained) {
  switch (trained.type.kind) {
    case ValueKind::kText:
      return trained.spelling.style != Spelling::Style::kPlain && trained.changes_text();
    case ValueKind::kBool:
    case ValueKind::kInteger:
    case ValueKind::kFloat:
    case ValueKind::kDouble:
      return found.kind != trained.type.kind &&
             !(trained.type.kind == ValueKind::kInteger && found.kind == ValueKind::kBool);
    default:
      return false;
  }
}

bool any_changes(const TrainedValues& trained, const std::string& text,
                 const HostVector<uint32_t>& ends) {
  std::string buffer;
  for (size_t i = 0; i < ends.size(); ++i)
    if (respell(trained, text_in(text, ends, i), buffer) != Respelled::kSame) return true;
  return false;
}

void as_floats(Column& column) {
  column.floats.resize(column.ints.size());
  for (size_t i = 0; i < column.ints.size(); ++i) {
    const bool is_missing = column.is_marked_missing(i);
    column.floats[i] =
        is_missing ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(column.ints[i]);
  }
  column.type = ColumnType::kFloat;
  column.ints.clear();
  column.missing.clear();
}

}  // namespace

TrainedFit::TrainedFit(const ColumnarField& field, const ColumnRequest& request,
                       const std::string& source)
    : found_(field.values()), trained_(request.trained) {
  const bool is_number = request.type == ColumnType::kFloat;
  const bool is_checked = !field.weighted && !(is_number && trained_.type.kind == ValueKind::kText);
  const std::string problem =
      is_checked ? kind_problem(trained_, found_, field.type_text) : std::string();
  EMBLEM_REQUIRE(problem.empty(), source, ": column ", in_quotes(field.name), " ", problem);
  type_ = requested_type(field.type, request);
  if (field.type == LeafType::kText || field.type == LeafType::kOther) return;
  if (found_.is_temporal()) {
    is_time_text_ =
        request.type == ColumnType::kText && trained_.spelling.style == Spelling::Style::kTimes;
    is_scaled_ = trained_.type.is_temporal() && trained_.type.ticks_per_day != found_.ticks_per_day;
    if (is_time_text_) type_ = ColumnType::kText;
    return;
  }
  if (request.type != ColumnType::kText) return;
  if (request.numbers_as_text || must_be_text(found_, trained_)) type_ = ColumnType::kText;
  is_respelled_ = type_ == ColumnType::kText && trained_.changes_text() && found_ != trained_.type;
  reads_all_digits_ = type_ == ColumnType::kText && field.type == LeafType::kDouble &&
                      trained_.type.kind == ValueKind::kText;
}

void TrainedFit::apply(Column& column, std::vector<ValueProblem>& problems) const {
  if (is_time_text_) return write_times(column, problems);
  if (is_scaled_) scale(column, problems);
  if (is_respelled_) respell_values(column, problems);
}

void TrainedFit::scale(Column& column, std::vector<ValueProblem>& problems) const {
  for (size_t i = 0; i < column.ints.size(); ++i) {
    const bool is_missing = column.is_marked_missing(i);
    int64_t& value = column.ints[i];
    if (is_missing || convert_ticks(value, found_, trained_.type, value)) continue;
    problems.push_back({static_cast<int64_t>(i),
                        cat("a ", name_of(found_), " is not a whole number of the units of the ",
                            name_of(trained_.type), " that the column was in training")});
  }
  if (type_ == ColumnType::kFloat) as_floats(column);
}

void TrainedFit::write_times(Column& column, std::vector<ValueProblem>& problems) const {
  column.text.clear();
  column.text_ends.clear();
  for (size_t i = 0; i < column.ints.size(); ++i) {
    const bool is_missing = column.is_marked_missing(i);
    const size_t begin = column.text.size();
    if (!is_missing &&
        !write_moment(moment_of(column.ints[i], found_), trained_.spelling.format, column.text)) {
      column.text.resize(begin);
      problems.push_back(
          {static_cast<int64_t>(i), cat("a ", name_of(found_), " cannot be written like ",
                                        in_quotes(name_of(trained_.spelling)),
                                        ", as the column's values were in training")});
    }
    column.text_ends.push_back(static_cast<uint32_t>(column.text.size()));
  }
  column.type = ColumnType::kText;
  column.ints.clear();
  column.missing.clear();
}

void TrainedFit::respell_values(Column& column, std::vector<ValueProblem>& problems) const {
  std::string text, buffer;
  HostVector<uint32_t> ends;
  ends.reserve(column.text_ends.size());
  for (size_t i = 0; i < column.text_ends.size(); ++i) {
    const std::string_view value = text_at(column, i);
    switch (respell(trained_, value, buffer)) {
      case Respelled::kSame:
        text += value;
        break;
      case Respelled::kChanged:
        text += buffer;
        break;
      case Respelled::kRefused:
        problems.push_back({static_cast<int64_t>(i), buffer});
        break;
      case Respelled::kMissing:
        break;
    }
    ends.push_back(static_cast<uint32_t>(text.size()));
  }
  column.text = std::move(text);
  column.text_ends = std::move(ends);
}

bool is_spelled_otherwise(const TrainedValues& trained, const Column& column) {
  if (!trained.changes_text()) return false;
  if (column.dictionary == nullptr) return any_changes(trained, column.text, column.text_ends);
  std::optional<bool>& known = column.dictionary->spelled_otherwise;
  if (!known) known = any_changes(trained, column.dictionary->text, column.dictionary->ends);
  return *known;
}

}  // namespace emblem
