// The lines of a printed trace between its signature and its return: binds and regions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/program_text.h"

namespace fulgurite::ir {

class BodyParser : protected ProgramText {
 protected:
  using ProgramText::ProgramText;

  // Up to the return; gives the column behind that word.
  size_t body();

  bool decorated_ = false;    // with no_grad, as functional traces are
  bool all_no_grad_ = false;  // as recorded
  bool unpacks_ = false;      // its inputs, as backward traces do

 private:
  // What stands on the left of '=': "" for '_'. A list of names is kept as one.
  struct Target {
    bool is_list = false;
    std::vector<std::string> names;
  };
  struct OpenRegion {
    int32_t index;
    std::vector<Target> left;
    size_t line;
  };

  bool unpacking(Lexer lex);
  void statement(size_t indent, bool in_no_grad);
  std::vector<Result> results_of(const std::vector<Target>& left, const Op& op, size_t column,
                                 const std::function<ValueId(const std::string&)>& id_of);
  std::vector<Target> targets(Lexer& lex);
  static std::string target_name(Lexer& lex);
  ResolvedCall resolved_call(Lexer& lex);
  void begin_region(size_t begin);
  void end_region();

  std::vector<OpenRegion> open_;
};

}  // namespace fulgurite::ir
