// Operators by name. Everything else about an Op is inline in op.h.
#include "ir/op.h"

#include "ir/errors.h"

namespace fulgurite::ir {

std::optional<Op> Op::find(const std::string& name, const std::string& overload) {
  auto handle = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!handle) return std::nullopt;
  return Op(*handle);
}

Op Op::get(const std::string& name, const std::string& overload) {
  if (auto op = find(name, overload)) return *op;
  throw InternalError("there is no operator '" + name + (overload.empty() ? "" : ".") + overload +
                      "' in this build of PyTorch");
}

std::string Op::ns() const { return name().substr(0, name().find("::")); }

std::string Op::base_name() const {
  const size_t colons = name().find("::");
  return colons == std::string::npos ? name() : name().substr(colons + 2);
}

std::string Op::id() const {
  std::string result = ns() + "." + base_name();
  if (!overload().empty()) result += "." + overload();
  return result;
}

}  // namespace fulgurite::ir
