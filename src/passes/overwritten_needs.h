// What gradients need of values that the program overwrites after the operator: eager's backward
// raises there.
#pragma once

#include <optional>
#include <vector>

#include "passes/derive.h"
#include "passes/functionalize.h"

namespace fulgurite::passes {

class OverwrittenNeeds {
 public:
  explicit OverwrittenNeeds(const Functionalized& f) : in_(*f.trace), overwritten_(f.overwritten) {}

  struct Need {
    ir::ValueId value;
    bool is_counted;  // a version counter tells of it
  };
  // Bind `index`, and its tensors.
  struct Use {
    size_t index;
    const std::vector<ir::ValueId>& arguments;
    const std::vector<ir::ValueId>& results;
  };
  // An argument or result that the rule needs.
  std::optional<Need> of_rule(const Rule& rule, const Use& use) const;
  // The same for what eager's node saves: it is made for all results, whichever are used.
  std::optional<Need> of_node(const std::vector<bool>& wanted, const Use& use) const;

 private:
  const ir::Trace& in_;
  const std::vector<Overwriting>& overwritten_;
};

}  // namespace fulgurite::passes
