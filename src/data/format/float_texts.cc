#include "data/format/float_texts.h"

#include "data/format/spelling.h"

namespace emblem {

void FloatTexts::add(std::string_view text) {
  if (text.empty()) return;
  if (is_number_literal(text)) {
    if (text.find_first_of("eE") != text.npos || text == "-0" || text == "-0.0")
      ++varying_;
    else if (text.find('.') != text.npos)
      ++fractions_;
    return;
  }
  if (text.starts_with('-')) text.remove_prefix(1);
  const bool is_special = text == "nan" || text == "NaN" || text == "inf";
  ++(is_special ? specials_ : others_);
}

}  // namespace emblem
