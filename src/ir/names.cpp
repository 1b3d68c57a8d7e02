#include "ir/names.h"

#include <algorithm>
#include <array>

namespace fulgurite::ir {
namespace {

// Python's keywords and constants, the modules that printed programs import, the parameters of a
// backward function, and '_', which stands for results that nobody names. Sorted.
constexpr auto kReserved = std::to_array<std::string_view>({"False",
                                                            "None",
                                                            "True",
                                                            "_",
                                                            "__debug__",
                                                            "and",
                                                            "as",
                                                            "assert",
                                                            "async",
                                                            "await",
                                                            "base64",
                                                            "break",
                                                            "bytearray",
                                                            "class",
                                                            "complex",
                                                            "continue",
                                                            "cotangents",
                                                            "def",
                                                            "del",
                                                            "elif",
                                                            "else",
                                                            "except",
                                                            "finally",
                                                            "float",
                                                            "for",
                                                            "from",
                                                            "fulgurite",
                                                            "global",
                                                            "if",
                                                            "import",
                                                            "in",
                                                            "inf",
                                                            "is",
                                                            "lambda",
                                                            "match",
                                                            "nan",
                                                            "nonlocal",
                                                            "not",
                                                            "or",
                                                            "pass",
                                                            "raise",
                                                            "return",
                                                            "saved_for_backward",
                                                            "slice",
                                                            "torch",
                                                            "try",
                                                            "type",
                                                            "while",
                                                            "with",
                                                            "yield"});
static_assert(std::is_sorted(kReserved.begin(), kReserved.end()));

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_reserved(std::string_view name) {
  return std::binary_search(kReserved.begin(), kReserved.end(), name);
}

}  // namespace

bool is_usable_name(std::string_view name) {
  if (name.empty() || !is_letter(name[0]) || is_reserved(name)) return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

std::string usable_name(std::string_view hint) {
  std::string name;
  for (char c : hint) name += is_letter(c) || is_digit(c) ? c : '_';
  if (name.empty()) return "v";
  if (is_digit(name[0])) name.insert(0, 1, '_');
  while (is_reserved(name)) name += '_';
  return name;
}

}  // namespace fulgurite::ir
