#include "ir/parse_call.h"

#include <c10/core/Device.h>

#include <charconv>
#include <limits>

#include "ir/constants.h"
#include "ir/dtypes.h"

namespace fulgurite::ir {
namespace {

const NameTable kNoNames;

Literal number_literal(Lexer& lexer) {
  const size_t start = lexer.peek().begin;
  const bool negative = lexer.eat("-");
  const Token token = lexer.next();
  if (token.kind != TokenKind::Number) {
    // -float('inf') is not printed: float('-inf') is.
    lexer.reset(start);
    lexer.fail("a number");
  }
  const std::string text = (negative ? "-" : "") + token.text;
  Literal literal;
  const char* const last = text.data() + text.size();
  if (text.find_first_of(".e") == std::string::npos) {
    literal.kind = LiteralKind::Int;
    const auto [end, error] = std::from_chars(text.data(), last, literal.integer);
    if (error != std::errc() || end != last)
      lexer.fail_at(start, "'" + text + "'", "a 64 bit integer");
  } else {
    literal.kind = LiteralKind::Float;
    const auto [end, error] = std::from_chars(text.data(), last, literal.real);
    if (error != std::errc() || end != last) lexer.fail_at(start, "'" + text + "'", "a number");
  }
  return literal;
}

// What follows the name `float`.
double special_float(Lexer& lexer) {
  lexer.expect("(");
  const Token token = lexer.next();
  lexer.expect(")");
  if (token.text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (token.text == "inf") return std::numeric_limits<double>::infinity();
  if (token.text == "-inf") return -std::numeric_limits<double>::infinity();
  lexer.fail_at(token.begin, "'" + token.text + "'", "'nan', 'inf' or '-inf'");
}

double real_part(Lexer& lexer) {
  if (lexer.eat("float")) return special_float(lexer);
  const Literal literal = number_literal(lexer);
  return literal.kind == LiteralKind::Int ? static_cast<double>(literal.integer) : literal.real;
}

Literal list_literal(Lexer& lexer, const NameTable& names, std::string_view close) {
  Literal literal;
  literal.kind = LiteralKind::List;
  while (!lexer.eat(close)) {
    if (!literal.items.empty()) {
      lexer.expect(",");
      if (lexer.eat(close)) break;  // "(a,)"
    }
    literal.items.push_back(parse_literal(lexer, names));
  }
  return literal;
}

// What follows the name `torch`.
Literal torch_literal(Lexer& lexer) {
  lexer.expect(".");
  const Token token = lexer.peek();
  const std::string name = lexer.expect_name("a dtype, layout, memory format or device");
  Literal literal;
  if (name == "device") {
    lexer.expect("(");
    const Token device = lexer.next();
    lexer.expect(")");
    literal.kind = LiteralKind::Device;
    literal.text = device.text;
    return literal;
  }
  if (name == "tensor") {  // a number where the operator takes only tensors
    lexer.expect("(");
    literal = parse_literal(lexer, kNoNames);
    if (!is_constant_number(literal))
      lexer.fail_at(token.begin, "'torch.tensor'", "a number in it");
    for (std::string_view word : {",", "dtype", "=", "torch", "."}) lexer.expect(word);
    lexer.expect_name("a dtype");
    lexer.expect(")");
    literal.as_tensor = true;
    return literal;
  }
  if (name == "default_generator") {
    literal.kind = LiteralKind::Generator;
    return literal;
  }
  if (const auto dtype = dtype_of_torch_name(name)) {
    literal.kind = LiteralKind::Dtype;
    literal.integer = static_cast<int64_t>(*dtype);
    return literal;
  }
  if (const auto layout = layout_of_torch_name(name)) {
    literal.kind = LiteralKind::Layout;
    literal.integer = static_cast<int64_t>(*layout);
    return literal;
  }
  if (const auto format = memory_format_of_torch_name(name)) {
    literal.kind = LiteralKind::MemoryFormat;
    literal.integer = static_cast<int64_t>(*format);
    return literal;
  }
  lexer.fail_at(token.begin, "'torch." + name + "'", "a dtype, layout, memory format or device");
}

std::string dotted_path(Lexer& lexer, std::string path) {
  while (lexer.eat(".")) path += "." + lexer.expect_name("a name after '.'");
  return path;
}

ValueId lookup(Lexer& lexer, const Token& token, const NameTable& names) {
  const auto found = names.find(token.text);
  if (found == names.end())
    lexer.fail_at(token.begin, "'" + token.text + "'", "a value; no line above defines this name");
  return found->second;
}

// ---- constant tensors ----

void flatten(Lexer& lexer, const Literal& literal, at::ScalarType dtype, size_t position,
             std::vector<uint8_t>& bytes) {
  if (literal.kind == LiteralKind::List) {
    for (const Literal& item : literal.items) flatten(lexer, item, dtype, position, bytes);
  } else if (!append_element(literal, dtype, bytes)) {
    lexer.fail_at(position, "'" + literal_text(literal, {}) + "'",
                  "an element of " + torch_name(dtype));
  }
}

void expect_path(Lexer& lexer, std::initializer_list<std::string_view> tokens) {
  for (std::string_view token : tokens) lexer.expect(token);
}

void expect_dtype(Lexer& lexer, const TensorType& type) {
  expect_path(lexer, {",", "dtype", "=", "torch", ".", torch_name(type.dtype)});
}

void expect_dims(Lexer& lexer, const Dims& dims) {
  const size_t start = lexer.peek().begin;
  lexer.expect("[");
  Dims found;
  while (!lexer.eat("]")) {
    if (!found.empty()) lexer.expect(",");
    found.push_back(lexer.expect_integer());
  }
  if (found != dims)
    lexer.fail_at(start, "other sizes or strides", "those of the type in the comment");
}

std::vector<uint8_t> contents(Lexer& lexer, const TensorType& type) {
  std::vector<uint8_t> bytes;
  expect_path(lexer, {"torch", "."});
  const Token maker = lexer.next();
  lexer.expect("(");
  if (maker.is("tensor")) {
    const size_t start = lexer.peek().begin;
    flatten(lexer, parse_literal(lexer, kNoNames), type.dtype, start, bytes);
    expect_dtype(lexer, type);
    lexer.expect(")");
  } else if (maker.is("full")) {
    expect_dims(lexer, type.sizes);
    lexer.expect(",");
    std::vector<uint8_t> one;
    const size_t start = lexer.peek().begin;
    flatten(lexer, parse_literal(lexer, kNoNames), type.dtype, start, one);
    for (int64_t i = 0; i < type.numel(); ++i) bytes.insert(bytes.end(), one.begin(), one.end());
    expect_dtype(lexer, type);
    lexer.expect(")");
  } else if (maker.is("empty")) {
    expect_dims(lexer, type.sizes);
    expect_dtype(lexer, type);
    lexer.expect(")");
  } else if (maker.is("frombuffer")) {
    expect_path(lexer, {"bytearray", "(", "base64", ".", "b64decode", "("});
    const Token text = lexer.next();
    if (text.kind != TokenKind::String || !base64_decode(text.text, bytes))
      lexer.fail_at(text.begin, "'" + text.text + "'", "a base64 string");
    expect_path(lexer, {")", ")"});
    expect_dtype(lexer, type);
    expect_path(lexer, {")", ".", "reshape", "("});
    expect_dims(lexer, type.sizes);
    lexer.expect(")");
  } else {
    lexer.fail_at(maker.begin, "'" + maker.text + "'", "tensor, full, empty or frombuffer");
  }
  return bytes;
}

}  // namespace

Literal parse_literal(Lexer& lexer, const NameTable& names) {
  const Token token = lexer.peek();
  Literal literal;
  if (token.kind == TokenKind::Number || token.is("-")) return number_literal(lexer);
  if (token.kind == TokenKind::String) {
    literal.kind = LiteralKind::String;
    literal.text = lexer.next().text;
    return literal;
  }
  if (lexer.eat("[")) return list_literal(lexer, names, "]");
  if (lexer.eat("(")) return list_literal(lexer, names, ")");
  if (token.kind != TokenKind::Name) lexer.fail("a value or a constant");
  lexer.next();
  if (token.text == "None") return literal;
  if (token.text == "True" || token.text == "False") {
    literal.kind = LiteralKind::Bool;
    literal.integer = token.text == "True" ? 1 : 0;
    return literal;
  }
  if (token.text == "torch") return torch_literal(lexer);
  if (token.text == "float") {
    literal.kind = LiteralKind::Float;
    literal.real = special_float(lexer);
    return literal;
  }
  if (token.text == "complex") {
    literal.kind = LiteralKind::Complex;
    lexer.expect("(");
    literal.real = real_part(lexer);
    lexer.expect(",");
    literal.imaginary = real_part(lexer);
    lexer.expect(")");
    return literal;
  }
  return value_literal(lookup(lexer, token, names));
}

Call parse_call(Lexer& lexer, const NameTable& names) {
  Call call;
  const Token first = lexer.peek();
  const std::string name = lexer.expect_name("a call");
  if (name == "getattr") {
    lexer.expect("(");
    call.callee = dotted_path(lexer, lexer.expect_name("an operator"));
    lexer.expect(",");
    const Token attribute = lexer.next();
    if (attribute.kind != TokenKind::String)
      lexer.fail_at(attribute.begin, "'" + attribute.text + "'", "the name of an overload");
    call.callee += "." + attribute.text;
    lexer.expect(")");
  } else if (name == "torch" || name == "fulgurite") {
    call.callee = dotted_path(lexer, name);
  } else {
    call.positional.push_back(value_literal(lookup(lexer, first, names)));
    lexer.expect(".");
    call.callee = "." + lexer.expect_name("a method");
  }
  lexer.expect("(");
  for (bool is_first = true; !lexer.eat(")"); is_first = false) {
    if (!is_first) lexer.expect(",");
    const size_t start = lexer.position();
    const Token keyword = lexer.next();
    if (keyword.kind == TokenKind::Name && lexer.eat("=")) {
      call.keywords.emplace_back(keyword.text, parse_literal(lexer, names));
    } else {
      lexer.reset(start);
      if (!call.keywords.empty()) lexer.fail("a keyword argument");
      call.positional.push_back(parse_literal(lexer, names));
    }
  }
  return call;
}

std::vector<uint8_t> parse_constant(Lexer& lexer, const TensorType& type) {
  std::vector<uint8_t> bytes;
  const size_t start = lexer.position();
  const size_t column = lexer.peek().begin;
  expect_path(lexer, {"torch", "."});
  if (lexer.eat("empty_strided")) {
    lexer.expect("(");
    expect_dims(lexer, type.sizes);
    lexer.expect(",");
    expect_dims(lexer, type.strides);
    expect_dtype(lexer, type);
    expect_path(lexer, {")", ".", "copy_", "("});
    bytes = contents(lexer, type);
    lexer.expect(")");
  } else {
    lexer.reset(start);
    bytes = contents(lexer, type);
  }
  while (lexer.eat(".")) {
    if (lexer.eat("to")) {
      lexer.expect("(");
      lexer.next();
      lexer.expect(")");
    } else {
      expect_path(lexer, {"requires_grad_", "(", ")"});
    }
  }
  lexer.expect_end();
  if (bytes.size() != static_cast<size_t>(type.numel()) * c10::elementSize(type.dtype))
    lexer.fail_at(column, std::to_string(bytes.size() / c10::elementSize(type.dtype)) + " elements",
                  std::to_string(type.numel()) + ", as the type in the comment says");
  return bytes;
}

}  // namespace fulgurite::ir
