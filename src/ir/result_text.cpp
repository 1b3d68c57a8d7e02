#include "ir/result_text.h"

#include <cctype>
#include <unordered_map>

namespace fulgurite::ir {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::string name_or_none(const Trace& trace, ValueId id) {
  return id == kNoValue ? "None" : trace.value(id).name;
}

std::string tuple_text(const std::vector<std::string>& items) {
  std::string text = "(";
  for (size_t i = 0; i < items.size(); ++i) text += (i > 0 ? ", " : "") + items[i];
  return text + (items.size() == 1 ? ",)" : ")");
}

std::vector<std::string> output_names(const Trace& trace) {
  std::vector<std::string> names;
  for (ValueId id : trace.outputs) names.push_back(name_or_none(trace, id));
  return names;
}

std::string fill_template(const std::string& output_template,
                          const std::vector<std::string>& names) {
  if (output_template.empty()) return tuple_text(names);
  std::string text;
  for (size_t i = 0; i < output_template.size(); ++i) {
    size_t end = i + 1;
    if (output_template[i] == '$')
      while (end < output_template.size() && is_digit(output_template[end])) ++end;
    if (end == i + 1) {
      text += output_template[i];
      continue;
    }
    text += names.at(std::stoul(output_template.substr(i + 1, end - i - 1)));
    i = end - 1;
  }
  return text;
}

std::string guess_template(const std::string& text, const std::vector<std::string>& names) {
  if (text == tuple_text(names)) return "";
  // The n-th time that a name occurs it stands for the n-th output of that name.
  std::unordered_map<std::string, std::vector<size_t>> outputs;
  for (size_t i = names.size(); i-- > 0;) outputs[names[i]].push_back(i);
  std::string result;
  char quote = 0;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (quote != 0 || !is_word(c)) {
      if (quote == 0 && (c == '\'' || c == '"')) {
        quote = c;
      } else if (quote != 0 && c == '\\' && i + 1 < text.size()) {
        result += text[i++];
      } else if (c == quote) {
        quote = 0;
      }
      result += text[i++];
      continue;
    }
    size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string word = text.substr(i, end - i);
    const auto found = outputs.find(word);
    if (found != outputs.end() && !(i > 0 && text[i - 1] == '.')) {
      result += "$" + std::to_string(found->second.back());
      if (found->second.size() > 1) found->second.pop_back();
    } else {
      result += word;
    }
    i = end;
  }
  return result;
}

}  // namespace fulgurite::ir
