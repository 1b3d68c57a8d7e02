#include "ir/parse_body.h"

#include "ir/text.h"

namespace fulgurite::ir {

size_t BodyParser::body() {
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
      return indent + 6;
    } else {
      in_block = in_block && indent >= 8;
      statement(indent, in_block);
    }
  }
  fail(0, "the end of the text", "'return'");
}

// True for "x = saved_for_backward[0][1]" and "g = cotangents[0]", the inputs of a backward
// trace.
bool BodyParser::unpacking(Lexer lex) {
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

void BodyParser::statement(size_t indent, bool in_no_grad) {
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

std::vector<Result> BodyParser::results_of(
    const std::vector<Target>& left, const Op& op, size_t column,
    const std::function<ValueId(const std::string&)>& id_of) {
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
std::vector<BodyParser::Target> BodyParser::targets(Lexer& lex) {
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

std::string BodyParser::target_name(Lexer& lex) {
  std::string name = lex.expect_name("the name of a result");
  return name == "_" ? "" : name;
}

ResolvedCall BodyParser::resolved_call(Lexer& lex) {
  const size_t column = lex.peek().begin;
  const Call call = parse_call(lex, names_);
  auto found = resolve(call, trace().values);
  if (const auto* why = std::get_if<std::string>(&found))
    fail(column, "'" + call_text(call, trace().values) + "'", "a call of an operator; " + *why);
  return std::get<ResolvedCall>(std::move(found));
}

void BodyParser::begin_region(size_t begin) {
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
void BodyParser::end_region() {
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

}  // namespace fulgurite::ir
