#include "ir/lexer.h"

#include <charconv>

#include "ir/errors.h"

namespace fulgurite::ir {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

void parse_error(size_t line, size_t column, const std::string& found,
                 const std::string& expected) {
  throw UserError("FG-301", "line " + std::to_string(line) + ", column " + std::to_string(column) +
                                ": found " + found + ", expected " + expected);
}

void Lexer::fail_at(size_t position, const std::string& found, const std::string& expected) const {
  parse_error(line_number_, position + 1, found, expected);
}

void Lexer::fail(const std::string& expected) {
  const Token token = peek();
  fail_at(token.begin,
          token.kind == TokenKind::End ? "the end of the line" : "'" + token.text + "'", expected);
}

Token Lexer::string_token(size_t begin) {
  Token token;
  token.kind = TokenKind::String;
  token.begin = begin;
  const char quote = line_[begin];
  size_t i = begin + 1;
  for (; i < line_.size() && line_[i] != quote; ++i) {
    if (line_[i] != '\\' || i + 1 >= line_.size()) {
      token.text += line_[i];
      continue;
    }
    const char c = line_[++i];
    if (c == 'n') {
      token.text += '\n';
    } else if (c == 'x' && i + 2 < line_.size() && hex_digit(line_[i + 1]) >= 0 &&
               hex_digit(line_[i + 2]) >= 0) {
      token.text += static_cast<char>(hex_digit(line_[i + 1]) * 16 + hex_digit(line_[i + 2]));
      i += 2;
    } else {
      token.text += c;
    }
  }
  if (i >= line_.size()) fail_at(begin, "a string without an end", "its closing quote");
  token.end = i + 1;
  return token;
}

Token Lexer::peek() {
  size_t i = at_;
  while (i < line_.size() && (line_[i] == ' ' || line_[i] == '\t')) ++i;
  Token token;
  token.begin = i;
  token.end = i;
  if (i >= line_.size() || line_[i] == '#') return token;
  const char c = line_[i];
  if (c == '\'' || c == '"') return string_token(i);
  size_t end = i + 1;
  if (is_letter(c)) {
    token.kind = TokenKind::Name;
    while (end < line_.size() && (is_letter(line_[end]) || is_digit(line_[end]))) ++end;
  } else if (is_digit(c)) {
    token.kind = TokenKind::Number;
    while (end < line_.size() &&
           (is_digit(line_[end]) || line_[end] == '.' || line_[end] == 'e' ||
            ((line_[end] == '-' || line_[end] == '+') && line_[end - 1] == 'e')))
      ++end;
  } else {
    token.kind = TokenKind::Symbol;
    if (line_.substr(i, 2) == "->") end = i + 2;
  }
  token.text = std::string(line_.substr(i, end - i));
  token.end = end;
  return token;
}

Token Lexer::next() {
  Token token = peek();
  at_ = token.end;
  return token;
}

bool Lexer::eat(std::string_view symbol) {
  const Token token = peek();
  if (!token.is(symbol)) return false;
  at_ = token.end;
  return true;
}

void Lexer::expect(std::string_view symbol) {
  if (!eat(symbol)) fail("'" + std::string(symbol) + "'");
}

std::string Lexer::expect_name(const std::string& what) {
  const Token token = peek();
  if (token.kind != TokenKind::Name) fail(what);
  at_ = token.end;
  return token.text;
}

void Lexer::expect_end() {
  if (peek().kind != TokenKind::End) fail("the end of the line");
}

int64_t Lexer::expect_integer() {
  const size_t start = at_;
  const bool negative = eat("-");
  const Token token = peek();
  int64_t value = 0;
  const std::string text = (negative ? "-" : "") + token.text;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (token.kind != TokenKind::Number || error != std::errc() || end != text.data() + text.size()) {
    at_ = start;
    fail("an integer");
  }
  at_ = token.end;
  return value;
}

}  // namespace fulgurite::ir
