// What can be a name in a printed trace.
#pragma once

#include <string>
#include <string_view>

namespace fulgurite::ir {

// A Python identifier that is neither a keyword nor a name that the printed program itself uses
// (`torch`, `fulgurite`, ...).
bool is_usable_name(std::string_view name);

// The nearest usable name: other characters become '_', reserved names get one at the end.
std::string usable_name(std::string_view hint);

}  // namespace fulgurite::ir
