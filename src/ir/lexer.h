// Tokens of one line of Python, on demand. The printed programs have one statement a line.
#pragma once

#include <string>
#include <string_view>

namespace fulgurite::ir {

enum class TokenKind : uint8_t { Name, Number, String, Symbol, End };

struct Token {
  TokenKind kind = TokenKind::End;
  std::string text;  // of a String: its value
  size_t begin = 0;  // in the line
  size_t end = 0;

  bool is(std::string_view symbol) const {
    return (kind == TokenKind::Symbol || kind == TokenKind::Name) && text == symbol;
  }
};

// Throws UserError FG-301: "line 7, column 12: found ..., expected ...".
[[noreturn]] void parse_error(size_t line, size_t column, const std::string& found,
                              const std::string& expected);

class Lexer {
 public:
  // `line_number` counts from 1; lexing starts at `begin`. A '#' ends the line's code.
  Lexer(std::string_view line, size_t line_number, size_t begin = 0)
      : line_(line), line_number_(line_number), at_(begin) {}

  Token peek();
  Token next();
  bool eat(std::string_view symbol);
  void expect(std::string_view symbol);
  std::string expect_name(const std::string& what);
  void expect_end();
  int64_t expect_integer();

  size_t position() const { return at_; }
  void reset(size_t position) { at_ = position; }
  std::string_view rest() const { return line_.substr(at_); }
  size_t line_number() const { return line_number_; }

  [[noreturn]] void fail(const std::string& expected);  // at the next token
  [[noreturn]] void fail_at(size_t position, const std::string& found,
                            const std::string& expected) const;

 private:
  Token string_token(size_t begin);

  std::string_view line_;
  size_t line_number_;
  size_t at_;
};

}  // namespace fulgurite::ir
