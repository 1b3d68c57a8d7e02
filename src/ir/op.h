// An operator of PyTorch's dispatcher, as the traces name it. A value type of one pointer: two Ops
// are equal exactly if they are the same operator and overload.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>

namespace fulgurite::ir {

class Op {
 public:
  explicit Op(c10::OperatorHandle handle) : handle_(handle) {}

  // "aten::add", "Tensor" -> the operator; nullopt if there is none.
  static std::optional<Op> find(const std::string& name, const std::string& overload);
  // The same, for operators that must exist; throws InternalError.
  static Op get(const std::string& name, const std::string& overload = "");

  const c10::OperatorHandle& handle() const { return handle_; }
  const c10::FunctionSchema& schema() const { return handle_.schema(); }
  const std::string& name() const { return schema().name(); }               // "aten::add"
  const std::string& overload() const { return schema().overload_name(); }  // "Tensor"
  std::string id() const;                                                   // "aten.add.Tensor"
  std::string ns() const;                                                   // "aten"
  std::string base_name() const;                                            // "add"

  bool operator==(const Op& other) const { return handle_ == other.handle_; }

 private:
  c10::OperatorHandle handle_;
};

}  // namespace fulgurite::ir

template <>
struct std::hash<fulgurite::ir::Op> {
  size_t operator()(const fulgurite::ir::Op& op) const {
    return std::hash<c10::OperatorHandle>()(op.handle());
  }
};
