// Reading printed traces. The text is read line by line in the order in which print_python.cpp
// writes it: header, imports, constants, signature, body, return, notes. Types and locations come
// from the comments. Start at `ProgramParser::parse`.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ir/constants.h"
#include "ir/errors.h"
#include "ir/parse_body.h"
#include "ir/result_text.h"
#include "ir/storage_text.h"
#include "ir/text.h"

namespace fulgurite::ir {
namespace {

class ProgramParser : BodyParser {
 public:
  explicit ProgramParser(const std::string& text) : BodyParser(text) {}

  TracePtr parse() {
    header();
    imports_and_constants();
    signature();
    result(body());
    ++line_;
    notes();
    finish_storages();
    try {
      return builder_->finish();
    } catch (const InternalError& error) {
      throw UserError(
          "FG-301", "the text is Python of the right form, but no valid trace: " + error.message());
    }
  }

 private:
  // ---- the top ----

  // "# f, after functionalize: 6 ops, not functional"
  void header() {
    skip_blank();
    const std::string_view text = line();
    const size_t after = text.find(", after ");
    const size_t colon = text.rfind(": ");
    if (!text.starts_with("# ") || after == std::string_view::npos ||
        colon == std::string_view::npos || colon < after)
      fail(0, text.empty() ? "nothing" : "'" + std::string(text) + "'",
           "the header '# <name>, after <stage>: <n> ops'");
    builder_.emplace(std::string(text.substr(2, after - 2)),
                     std::string(text.substr(after + 8, colon - after - 8)));
    trace().functional = !text.ends_with(", not functional");
    ++line_;
    while (line().starts_with("# ")) {
      const size_t is = line().find(" is ");
      if (is == std::string_view::npos)
        fail(0, "'" + std::string(line()) + "'", "'# <label> is <path>'");
      files_.emplace(std::string(line().substr(2, is - 2)), std::string(line().substr(is + 4)));
      ++line_;
    }
  }

  void imports_and_constants() {
    for (skip_blank(); !at_end(); skip_blank()) {
      Lexer lex = lexer();
      const Token first = lex.next();
      if (first.is("@") || first.is("def")) return;
      if (first.is("import")) {
        const Token module = lex.peek();
        if (!module.is("torch") && !module.is("fulgurite") && !module.is("base64"))
          lex.fail("torch, fulgurite or base64");
      } else {
        constant(first, lex);
      }
      ++line_;
    }
    fail(0, "the end of the text", "'def computation', 'def backward' or 'def rule'");
  }

  void constant(const Token& name, Lexer& lex) {
    if (name.kind != TokenKind::Name)
      fail(name.begin, "'" + name.text + "'", "the name of a constant");
    check_new_name(name.text, name.begin);
    lex.expect("=");
    const size_t begin = lex.position();
    // The type, which decides how the contents are read, stands at the end of the line.
    const size_t hash = line().rfind("# ");
    const auto remarks =
        hash == std::string_view::npos ? Remarks() : remarks_in(line().substr(hash + 2));
    if (!remarks.types || remarks.types->size() != 1 ||
        !std::holds_alternative<TensorType>(remarks.types->front().type))
      fail(line().size(), "no type in the comment", "the type of '" + name.text + "'");
    const auto& type = std::get<TensorType>(remarks.types->front().type);
    Lexer contents(line().substr(0, hash), line_ + 1, begin);
    const ValueId id =
        builder_->add_constant(make_constant(type, parse_constant(contents, type)), name.text);
    // The contents are a new tensor, so what was recorded about storage is set from the comment.
    trace().values[static_cast<size_t>(id)].offset = 0;
    remember(name.text, id, remarks.types->front().mark);
  }

  void signature() {
    if (line().starts_with("@torch.no_grad()")) {
      decorated_ = true;
      all_no_grad_ = line().find("# as recorded") != std::string_view::npos;
      ++line_;
    }
    Lexer lex = lexer();
    lex.expect("def");
    const Token name = lex.peek();
    const std::string kind = lex.expect_name("'computation', 'backward' or 'rule'");
    if (kind == "computation") {
      trace().kind = TraceKind::Computation;
      inputs(lex);
    } else if (kind == "backward" || kind == "rule") {
      trace().kind = kind == "rule" ? TraceKind::Rule : TraceKind::Backward;
      unpacks_ = true;
      for (std::string_view token : {"(", "saved_for_backward", ",", "cotangents", ")"})
        lex.expect(token);
    } else {
      fail(name.begin, "'" + kind + "'", "'computation', 'backward' or 'rule'");
    }
    lex.expect(":");
    ++line_;
  }

  void inputs(Lexer& lex) {
    lex.expect("(");
    for (bool is_first = true; !lex.eat(")"); is_first = false) {
      if (!is_first) lex.expect(",");
      const Token name = lex.peek();
      lex.expect_name("the name of an input");
      lex.expect(":");
      const Token type = lex.next();
      std::string_view text = type.text;
      auto marked = read_marked_type(text);
      if (type.kind != TokenKind::String || !marked || !text.empty())
        fail(type.begin, "'" + type.text + "'", "a type such as \"f32[2, 3]\"");
      add_input(name, *marked);
    }
  }

  // ---- the end ----

  void result(size_t begin) {
    Lexer lex = lexer(begin);
    if (unpacks_) {
      trace().outputs = value_tuple(lex);
      lex.expect_end();
      return;
    }
    lex.expect("{");
    expect_key(lex, "output");
    const std::string output = expression_text(lex);
    lex.expect(",");
    expect_key(lex, "flat_args");
    const size_t column = lex.peek().begin;
    const Literal inputs = parse_literal(lex, names_);
    std::vector<ValueId> ids;
    for (const Literal& item : inputs.items) ids.push_back(item.value);
    if (ids != trace().inputs)
      fail(column, "other flat arguments", "the inputs of the function, in order");
    lex.expect(",");
    expect_key(lex, "flat_output");
    trace().outputs = value_tuple(lex);
    lex.expect("}");
    trace().output_template = guess_template(output, output_names(trace()));
    if (lex.eat(",")) {
      trace().kind = TraceKind::AugmentedForward;
      lex.expect("(");
      trace().saved = value_tuple(lex);
      lex.expect(",");
      const std::vector<ValueId> numbers = value_tuple(lex);
      trace().saved.insert(trace().saved.end(), numbers.begin(), numbers.end());
      lex.expect(")");
    }
    lex.expect_end();
  }

  static void expect_key(Lexer& lex, std::string_view key) {
    const Token token = lex.peek();
    if (token.kind != TokenKind::String || token.text != key)
      lex.fail("'" + std::string(key) + "'");
    lex.next();
    lex.expect(":");
  }

  // Any expression, as it stands: up to the comma that ends it.
  std::string expression_text(Lexer& lex) const {
    const size_t begin = lex.peek().begin;
    const std::string_view text = line();
    int depth = 0;
    char quote = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      const char c = text[i];
      if (quote != 0) {
        if (c == '\\') {
          ++i;
        } else if (c == quote) {
          quote = 0;
        }
      } else if (c == '\'' || c == '"') {
        quote = c;
      } else if (c == '(' || c == '[' || c == '{') {
        ++depth;
      } else if (c == ')' || c == ']' || c == '}') {
        --depth;
      } else if (c == ',' && depth == 0) {
        lex.reset(i);
        return std::string(text.substr(begin, i - begin));
      }
    }
    fail(begin, "an expression without an end", "', ' and 'flat_args'");
  }

  void notes() {
    for (skip_blank(); !at_end(); ++line_, skip_blank()) {
      const std::string_view text = line();
      if (text.starts_with("# result: ")) {
        trace().output_template = std::string(text.substr(10));
      } else if (text.starts_with("# saved: ")) {
        Lexer lex = lexer(9);
        trace().saved = value_tuple(lex);
      } else if (text.starts_with("# storage:")) {
        storages(text.substr(10));
      } else {
        fail(0, "'" + std::string(text) + "'", "the end of the text");
      }
    }
  }

  // " x=s0+4 t1=own"
  void storages(std::string_view text) {
    while (!(text = trimmed(text)).empty()) {
      const size_t end = std::min(text.find(' '), text.size());
      const std::string_view item = text.substr(0, end);
      const size_t equals = item.find('=');
      const auto found = names_.find(std::string(item.substr(0, equals)));
      if (equals == std::string_view::npos || found == names_.end())
        fail(column_of(item), "'" + std::string(item) + "'", "<value>=<storage>");
      marks_[static_cast<size_t>(found->second)] = std::string(item.substr(equals + 1));
      text.remove_prefix(end);
    }
  }

  void finish_storages() {
    marks_.resize(trace().values.size());
    for (size_t i = 0; i < marks_.size(); ++i)
      if (marks_[i].empty() && !trace().functional && trace().values[i].is_tensor())
        marks_[i] = "own";
    if (!apply_storage_marks(trace().values, marks_))
      throw UserError("FG-301", "found a storage that cannot be read, expected one such as @s0+4");
  }
};

}  // namespace

TracePtr parse_python(const std::string& text) { return ProgramParser(text).parse(); }

}  // namespace fulgurite::ir
