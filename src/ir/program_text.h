// What readers of a printed trace stand on: its lines, the names that they have defined so far, and
// comments.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/parse_call.h"
#include "ir/type_text.h"

namespace fulgurite::ir {

// What the comment of a line says.
struct Remarks {
  std::optional<std::vector<MarkedType>> types;
  bool no_grad = false;
  int32_t location = -1;
  std::string module;
};

std::string_view trimmed(std::string_view text);

class ProgramText {
 protected:
  explicit ProgramText(const std::string& text);

  // ---- lines ----
  bool at_end() const { return line_ >= lines_.size(); }
  std::string_view line() const { return at_end() ? std::string_view() : lines_[line_]; }
  Lexer lexer(size_t begin = 0) const { return Lexer(line(), line_ + 1, begin); }
  void skip_blank();
  [[noreturn]] void fail(size_t column, const std::string& found,
                         const std::string& expected) const;
  // `part` is a piece of the current line.
  size_t column_of(std::string_view part) const;

  // ---- comments ----
  Remarks remarks_after(std::string_view rest);
  Remarks remarks_in(std::string_view comment);

  // ---- values ----
  Trace& trace() { return builder_->trace(); }
  void check_new_name(const std::string& name, size_t column) const;
  void remember(const std::string& name, ValueId id, const std::string& mark);
  void add_input(const Token& name, const MarkedType& marked);
  std::vector<ValueId> value_tuple(Lexer& lex);

  std::vector<std::string_view> lines_;
  size_t line_ = 0;  // the current one
  std::optional<TraceBuilder> builder_;
  std::unordered_map<std::string, std::string> files_;  // labels, and paths
  NameTable names_;
  std::vector<std::string> marks_;  // of storages, by ValueId

 private:
  bool read_location(std::string_view field, int32_t& location);
};

}  // namespace fulgurite::ir
