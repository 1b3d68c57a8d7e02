#include "passes/functional/emitter.h"

#include <ATen/core/Tensor.h>

namespace fulgurite::passes {

Emitter::Emitter(const ir::Trace& recorded) : b(recorded.name, "functionalize") {
  b.trace().functional = true;
  b.trace().locations = recorded.locations;
  b.trace().output_template = recorded.output_template;
}

ir::Value Emitter::typed(const ir::TensorType& type, bool requires_grad) {
  ir::Value v;
  ir::TensorType t = type;
  t.requires_grad = requires_grad;
  v.type = std::move(t);
  return v;
}

ir::ValueId Emitter::emit(const ir::Op& op, std::vector<ir::Arg> args, const ir::Value& like,
                          bool requires_grad) {
  const ir::ValueId id = b.add_value(typed(like.tensor(), requires_grad));
  b.add_bind(ir::Bind{op, std::move(args), {ir::Result(id)}, location, region, grad_mode});
  return id;
}

}  // namespace fulgurite::passes
