#include "ir/program_text.h"

#include <algorithm>
#include <charconv>

#include "ir/names.h"
#include "ir/text.h"

namespace fulgurite::ir {
namespace {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t") == std::string_view::npos;
}

// The parts of a comment, which stand two blanks or more apart.
std::vector<std::string_view> fields_of(std::string_view comment) {
  std::vector<std::string_view> fields;
  while (!comment.empty()) {
    const size_t gap = std::min(comment.find("  "), comment.size());
    if (std::string_view field = trimmed(comment.substr(0, gap)); !field.empty())
      fields.push_back(field);
    comment.remove_prefix(gap);
    comment.remove_prefix(std::min(comment.find_first_not_of(' '), comment.size()));
  }
  return fields;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

ProgramText::ProgramText(const std::string& text) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines_.push_back(line);
    begin = end + 1;
  }
  if (lines_.size() > 1 && lines_.back().empty()) lines_.pop_back();
}

void ProgramText::skip_blank() {
  while (!at_end() && is_blank(line())) ++line_;
}
void ProgramText::fail(size_t column, const std::string& found, const std::string& expected) const {
  parse_error(std::min(line_ + 1, lines_.size()), column + 1, found, expected);
}
size_t ProgramText::column_of(std::string_view part) const {
  return part.data() == nullptr ? 0 : static_cast<size_t>(part.data() - line().data());
}

Remarks ProgramText::remarks_after(std::string_view rest) {
  const size_t hash = rest.find('#');
  return hash == std::string_view::npos ? Remarks() : remarks_in(rest.substr(hash + 1));
}

Remarks ProgramText::remarks_in(std::string_view comment) {
  Remarks remarks;
  for (std::string_view field : fields_of(comment)) {
    if (field == "no_grad") {
      remarks.no_grad = true;
    } else if (field.starts_with("in ")) {
      remarks.module = std::string(field.substr(3));
    } else if (auto types = read_types(field)) {
      remarks.types = std::move(types);
    } else if (!read_location(field, remarks.location)) {
      fail(column_of(field), "'" + std::string(field) + "'",
           "a type such as f32[2, 3] or a location such as model.py:7");
    }
  }
  return remarks;
}

bool ProgramText::read_location(std::string_view field, int32_t& location) {
  const size_t colon = field.rfind(':');
  if (colon == std::string_view::npos) return false;
  SourceLocation found;
  const auto [end, error] =
      std::from_chars(field.data() + colon + 1, field.data() + field.size(), found.line);
  if (error != std::errc() || end != field.data() + field.size()) return false;
  found.file = std::string(field.substr(0, colon));
  if (const auto full = files_.find(found.file); full != files_.end()) found.file = full->second;
  location = builder_->add_location(found);
  return true;
}

void ProgramText::check_new_name(const std::string& name, size_t column) const {
  if (!is_usable_name(name))
    fail(column, "'" + name + "'", "a name that Python and the program do not use otherwise");
  if (names_.contains(name))
    fail(column, "a second definition of '" + name + "'",
         "a new name: every value is defined once");
}

void ProgramText::remember(const std::string& name, ValueId id, const std::string& mark) {
  names_.emplace(name, id);
  marks_.resize(static_cast<size_t>(id) + 1);
  marks_[static_cast<size_t>(id)] = mark;
}

void ProgramText::add_input(const Token& name, const MarkedType& marked) {
  check_new_name(name.text, name.begin);
  Value value;
  value.name = name.text;
  value.type = marked.type;
  remember(name.text, builder_->add_input(std::move(value)), marked.mark);
}

std::vector<ValueId> ProgramText::value_tuple(Lexer& lex) {
  const Token open = lex.peek();
  if (!open.is("(")) lex.fail("a tuple of values");
  std::vector<ValueId> ids;
  for (const Literal& item : parse_literal(lex, names_).items) {
    if (item.kind != LiteralKind::Value && item.kind != LiteralKind::None)
      fail(open.begin, "'" + literal_text(item, trace().values) + "'", "values or None");
    ids.push_back(item.value);
  }
  return ids;
}

}  // namespace fulgurite::ir
