// Reading printed traces. The text is read line by line in the order in which print_python.cpp
// writes it: header, imports, constants, signature, body, return, notes. Types and locations come
// from the comments. Start at `ProgramParser::parse`.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/constants.h"
#include "ir/errors.h"
#include "ir/names.h"
#include "ir/parse_call.h"
#include "ir/result_text.h"
#include "ir/storage_text.h"
#include "ir/text.h"
#include "ir/type_text.h"

namespace fulgurite::ir {
namespace {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t") == std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
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

// What stands on the left of '=': "" for '_'. A list of names is kept as one.
struct Target {
  bool is_list = false;
  std::vector<std::string> names;
};

struct Remarks {
  std::optional<std::vector<MarkedType>> types;
  bool no_grad = false;
  int32_t location = -1;
  std::string module;
};

class ProgramParser {
 public:
  explicit ProgramParser(const std::string& text) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      std::string_view line(text.data() + begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      lines_.push_back(line);
      begin = end + 1;
    }
    if (lines_.size() > 1 && lines_.back().empty()) lines_.pop_back();
  }

  TracePtr parse() {
    header();
    imports_and_constants();
    signature();
    body();
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
  // ---- lines ----

  bool at_end() const { return line_ >= lines_.size(); }
  std::string_view line() const { return at_end() ? std::string_view() : lines_[line_]; }
  Lexer lexer(size_t begin = 0) const { return Lexer(line(), line_ + 1, begin); }
  void skip_blank() {
    while (!at_end() && is_blank(line())) ++line_;
  }
  [[noreturn]] void fail(size_t column, const std::string& found,
                         const std::string& expected) const {
    parse_error(std::min(line_ + 1, lines_.size()), column + 1, found, expected);
  }
  // `part` is a piece of the current line.
  size_t column_of(std::string_view part) const {
    return part.data() == nullptr ? 0 : static_cast<size_t>(part.data() - line().data());
  }

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

  void add_input(const Token& name, const MarkedType& marked) {
    check_new_name(name.text, name.begin);
    Value value;
    value.name = name.text;
    value.type = marked.type;
    remember(name.text, builder_->add_input(std::move(value)), marked.mark);
  }

  // ---- the body ----

  void body() {
    bool in_block = false;
    for (skip_blank(); !at_end(); ++line_, skip_blank()) {
      const std::string_view text = trimmed(line());
      const size_t indent = column_of(text);
      if (indent == 0) fail(0, "'" + std::string(text) + "'", "a line of the function");
      if (text == "# epilogue: what the caller can see") {
        builder_->begin_epilogue();
      } else if (text == "# end") {
        end_region();
      } else if (text.starts_with("# region ")) {
        begin_region(indent + 9);
      } else if (text.starts_with('#')) {
        continue;  // a note of the user
      } else if (text == "with torch.no_grad():") {
        in_block = true;
      } else if (text.starts_with("return")) {
        if (!open_.empty()) fail(indent, "'return'", "'# end' of a region");
        result(indent + 6);
        ++line_;
        return;
      } else {
        in_block = in_block && indent >= 8;
        statement(indent, in_block);
      }
    }
    fail(0, "the end of the text", "'return'");
  }

  // True for "x = saved_for_backward[0][1]" and "g = cotangents[0]", the inputs of a backward
  // trace.
  bool unpacking(Lexer lex) {
    if (!unpacks_) return false;
    const Token name = lex.next();
    if (name.kind != TokenKind::Name || !lex.eat("=")) return false;
    const bool saved = lex.eat("saved_for_backward");
    if (!saved && !lex.eat("cotangents")) return false;
    for (int i = 0; i < (saved ? 2 : 1); ++i) {
      lex.expect("[");
      lex.expect_integer();
      lex.expect("]");
    }
    lex.expect_end();
    const Remarks remarks = remarks_after(lex.rest());
    if (!remarks.types || remarks.types->size() != 1)
      fail(line().size(), "no type in the comment", "the type of '" + name.text + "'");
    add_input(name, remarks.types->front());
    if (saved) trace().num_saved_inputs = trace().inputs.size();
    return true;
  }

  void statement(size_t indent, bool in_no_grad) {
    Lexer lex = lexer(indent);
    if (unpacking(lex)) return;
    std::vector<Target> left = targets(lex);
    ResolvedCall call = resolved_call(lex);
    lex.expect_end();
    const Remarks remarks = remarks_after(lex.rest());

    Bind bind{std::move(call.op),
              std::move(call.args),
              {},
              remarks.location,
              open_.empty() ? -1 : open_.back().index,
              true};
    bind.grad_mode = !(decorated_ ? all_no_grad_ || remarks.no_grad : in_no_grad);
    size_t next_type = 0;
    auto define = [&](const std::string& name) {
      if (name.empty()) return kNoValue;
      check_new_name(name, indent);
      if (!remarks.types || next_type >= remarks.types->size())
        fail(line().size(), "no type in the comment", "the type of '" + name + "'");
      const MarkedType& marked = (*remarks.types)[next_type++];
      Value value;
      value.name = name;
      value.type = marked.type;
      const ValueId id = builder_->add_value(std::move(value));
      remember(name, id, marked.mark);
      return id;
    };
    bind.results = results_of(left, bind.op, indent, define);
    if (remarks.types && next_type != remarks.types->size())
      fail(indent, std::to_string(remarks.types->size()) + " types", std::to_string(next_type));
    builder_->add_bind(std::move(bind));
  }

  template <class F>
  std::vector<Result> results_of(const std::vector<Target>& left, const Op& op, size_t column,
                                 F&& id_of) {
    const size_t count = op.schema().returns().size();
    std::vector<Result> results;
    for (const Target& target : left) {
      if (!target.is_list) {
        results.emplace_back(id_of(target.names.front()));
        continue;
      }
      ValueList list;
      for (const std::string& name : target.names) list.push_back(id_of(name));
      results.emplace_back(std::move(list));
    }
    if (left.empty()) results.assign(count, Result(kNoValue));
    if (results.size() != count)
      fail(column, std::to_string(results.size()) + " results",
           std::to_string(count) + " of " + op.id());
    return results;
  }

  // "a, _, [b, c] =", or nothing.
  std::vector<Target> targets(Lexer& lex) {
    const size_t start = lex.position();
    std::vector<Target> left;
    do {
      Target target;
      if (lex.eat("[")) {
        target.is_list = true;
        while (!lex.eat("]")) {
          if (!target.names.empty()) lex.expect(",");
          target.names.push_back(target_name(lex));
        }
      } else {
        target.names.push_back(target_name(lex));
      }
      left.push_back(std::move(target));
    } while (lex.eat(","));
    if (lex.eat("=")) return left;
    if (left.size() > 1 || left.front().is_list) lex.fail("'='");
    lex.reset(start);
    return {};
  }

  static std::string target_name(Lexer& lex) {
    std::string name = lex.expect_name("the name of a result");
    return name == "_" ? "" : name;
  }

  ResolvedCall resolved_call(Lexer& lex) {
    const size_t column = lex.peek().begin;
    const Call call = parse_call(lex, names_);
    auto found = resolve(call, trace().values);
    if (const auto* why = std::get_if<std::string>(&found))
      fail(column, "'" + call_text(call, trace().values) + "'", "a call of an operator; " + *why);
    return std::get<ResolvedCall>(std::move(found));
  }

  // ---- regions ----

  struct OpenRegion {
    int32_t index;
    std::vector<Target> left;
    size_t line;
  };

  void begin_region(size_t begin) {
    Lexer lex = lexer(begin);
    std::vector<Target> left = targets(lex);
    ResolvedCall call = resolved_call(lex);
    const Remarks remarks = remarks_in(lex.rest());
    Region region{std::move(call.op),
                  std::move(call.args),
                  {},
                  remarks.location,
                  open_.empty() ? -1 : open_.back().index,
                  remarks.module};
    const int32_t index = builder_->add_region(std::move(region));
    open_.push_back({index, std::move(left), line_});
  }

  // The results are values that the lines of the region have defined by now.
  void end_region() {
    if (open_.empty()) fail(0, "'# end'", "no end: no region is open");
    const OpenRegion open = std::move(open_.back());
    open_.pop_back();
    Region& region = trace().regions[static_cast<size_t>(open.index)];
    const size_t end_line = line_;
    line_ = open.line;  // a message is about the line that names the results
    region.results = results_of(open.left, region.op, 0, [&](const std::string& name) {
      if (name.empty()) return kNoValue;
      const auto found = names_.find(name);
      if (found == names_.end())
        fail(0, "the result '" + name + "'", "a value that a line of the region defines");
      return found->second;
    });
    line_ = end_line;
  }

  // ---- comments ----

  Remarks remarks_after(std::string_view rest) {
    const size_t hash = rest.find('#');
    return hash == std::string_view::npos ? Remarks() : remarks_in(rest.substr(hash + 1));
  }

  Remarks remarks_in(std::string_view comment) {
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

  bool read_location(std::string_view field, int32_t& location) {
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

  std::vector<ValueId> value_tuple(Lexer& lex) {
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

  // ---- names ----

  Trace& trace() { return builder_->trace(); }

  void check_new_name(const std::string& name, size_t column) const {
    if (!is_usable_name(name))
      fail(column, "'" + name + "'", "a name that Python and the program do not use otherwise");
    if (names_.contains(name))
      fail(column, "a second definition of '" + name + "'",
           "a new name: every value is defined once");
  }

  void remember(const std::string& name, ValueId id, const std::string& mark) {
    names_.emplace(name, id);
    marks_.resize(static_cast<size_t>(id) + 1);
    marks_[static_cast<size_t>(id)] = mark;
  }

  std::vector<std::string_view> lines_;
  size_t line_ = 0;
  std::optional<TraceBuilder> builder_;
  std::unordered_map<std::string, std::string> files_;
  NameTable names_;
  std::vector<std::string> marks_;  // by ValueId
  std::vector<OpenRegion> open_;
  bool decorated_ = false;
  bool all_no_grad_ = false;
  bool unpacks_ = false;
};

}  // namespace

TracePtr parse_python(const std::string& text) { return ProgramParser(text).parse(); }

}  // namespace fulgurite::ir
