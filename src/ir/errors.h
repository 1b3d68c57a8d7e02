// The three ways in which something does not go on. They are distinct types because they are for
// different people: Refusal is an answer to the user, UserError is the user's mistake,
// InternalError is ours. docs/errors.md has a page for every code.
#pragma once

#include <stdexcept>
#include <string>

namespace fulgurite {

// "<code>: message". `code` is stable; the message says what was found, expected, and what to do.
class Error : public std::runtime_error {
 public:
  Error(std::string code, const std::string& message)
      : std::runtime_error(code + ": " + message), code_(std::move(code)), message_(message) {}
  const std::string& code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  std::string code_;
  std::string message_;
};

// This program, or this part of it, cannot be compiled soundly: the call runs eagerly, and is
// counted.
class Refusal : public Error {
 public:
  using Error::Error;
};

// The caller passed something that cannot be used (an unknown option, text that does not parse,
// ...).
class UserError : public Error {
 public:
  using Error::Error;
};

// A bug of fulgurite.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error("FG-900", message) {}
};

}  // namespace fulgurite
