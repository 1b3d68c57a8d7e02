// A trace as a C++ function against ATen. Operators of ATen are called as
// `at::_ops::add_Tensor::call(...)`, which exists for every operator and overload and takes exactly
// the arguments of the schema; operators of other namespaces are called through the dispatcher; our
// own prims are written out. Outputs come first in the returned vector, saved values after them.
#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "ir/constants.h"
#include "ir/cpp_text.h"
#include "ir/file_labels.h"
#include "ir/literal.h"
#include "ir/schema_args.h"
#include "ir/storage_text.h"
#include "ir/text.h"

namespace fulgurite::ir {
namespace {

using c10::TypeKind;

constexpr std::string_view kMutableHelper =
    R"(// Operators that write take their tensor by reference; the handle itself is not changed.
static at::Tensor& written(const at::Tensor& t) { return const_cast<at::Tensor&>(t); }
)";

constexpr std::string_view kConstantHelper =
    R"(// A tensor from the bytes of its elements in row major order (or of one element, for all).
static at::Tensor constant(at::ScalarType dtype, at::IntArrayRef sizes, at::IntArrayRef strides,
                           const std::vector<unsigned char>& bytes) {
  at::Tensor flat = at::empty(sizes, dtype);
  auto* data = static_cast<unsigned char*>(flat.mutable_data_ptr());
  for (size_t i = 0; i < flat.nbytes(); ++i) data[i] = bytes[i % bytes.size()];
  return at::empty_strided(sizes, strides, dtype).copy_(flat);
}
)";

class CppPrinter {
 public:
  explicit CppPrinter(const Trace& trace) : trace_(trace), labels_(file_labels(trace)) {
    for (const Value& value : trace.values) taken_.insert(value.name);
    for (const Value& value : trace.values) {
      std::string name = value.name;
      while (is_cpp_word(name) || (name != value.name && taken_.contains(name))) name += "_";
      taken_.insert(name);
      names_.push_back(std::move(name));
    }
  }

  std::string text() {
    constants();
    body();
    results();
    std::string text =
        "// " + trace_.name + ", after " + trace_.stage + "\n" +
        "#include <ATen/ATen.h>\n#include <ATen/Operators.h>\n"
        "#include <ATen/core/dispatch/Dispatcher.h>\n\n#include <limits>\n#include <vector>\n\n";
    if (writes_) text += std::string(kMutableHelper) + "\n";
    if (has_constants_) text += std::string(kConstantHelper) + "\n";
    return text + signature() + body_ + "}\n";
  }

 private:
  const std::string& name(ValueId id) const { return names_[static_cast<size_t>(id)]; }

  std::string signature() const {
    std::string function = "computation";
    if (trace_.kind == TraceKind::Backward) function = "backward";
    if (trace_.kind == TraceKind::Rule) function = "rule";
    std::vector<std::string> parameters;
    for (ValueId id : trace_.inputs)
      parameters.push_back((trace_.value(id).is_tensor() ? "[[maybe_unused]] const at::Tensor& "
                                                         : "[[maybe_unused]] const at::Scalar& ") +
                           name(id));
    std::string text = "std::vector<at::Tensor> " + function + "(";
    for (size_t i = 0; i < parameters.size(); ++i)
      text += (i > 0 ? ",\n        " : parameters.size() > 1 ? "\n        " : "") + parameters[i];
    return text + ") {\n";
  }

  void constants() {
    for (ValueId id : live_values(trace_)) {
      const Value& value = trace_.value(id);
      if (value.kind != ValueKind::Constant) continue;
      has_constants_ = true;
      std::vector<uint8_t> bytes = constant_bytes(value.constant);
      const size_t item = value.constant.element_size();
      if (bytes.size() > item &&
          std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(item), bytes.end(), bytes.begin()))
        bytes.resize(item);
      std::vector<std::string> numbers;
      for (uint8_t byte : bytes) numbers.push_back(std::to_string(byte));
      if (numbers.empty()) numbers.emplace_back("0");
      const std::string seen = constant_expression(value.constant, true);
      if (seen != "...") body_ += "  // " + seen + "\n";
      body_ += "  static const at::Tensor " + name(id) + " = constant(" +
               cpp_dtype(value.tensor().dtype) + ", " + cpp_dims(value.tensor().sizes) + ", " +
               cpp_dims(value.tensor().strides) + ", {" + joined(numbers) + "})" +
               device_suffix(value.tensor()) + ";\n";
    }
  }

  static std::string device_suffix(const TensorType& type) {
    std::string text;
    if (!type.device.is_cpu()) text += ".to(at::Device(\"" + type.device.str() + "\"))";
    if (type.requires_grad) text += ".requires_grad_()";
    return text;
  }

  void body() {
    const bool toggles =
        !trace_.functional && std::any_of(trace_.binds.begin(), trace_.binds.end(),
                                          [](const Bind& b) { return !b.grad_mode; });
    if (trace_.functional) body_ += "  at::NoGradGuard no_grad;\n";
    if (toggles) body_ += "  at::AutoGradMode restore_grad_mode(at::GradMode::is_enabled());\n";
    bool grad_mode = true;
    for (size_t i = 0; i < trace_.binds.size(); ++i) {
      const Bind& bind = trace_.binds[i];
      if (i == trace_.epilogue) body_ += "  // epilogue: what the caller can see\n";
      if (toggles && bind.grad_mode != grad_mode) {
        grad_mode = bind.grad_mode;
        body_ +=
            std::string("  at::GradMode::set_enabled(") + (grad_mode ? "true" : "false") + ");\n";
      }
      statement(bind);
    }
  }

  std::string remark(const Bind& bind) const {
    std::string types;
    for_each_result(bind, [&](ValueId id) {
      types += (types.empty() ? "" : ", ") + type_text(trace_.value(id));
    });
    if (bind.location >= 0) {
      const SourceLocation& at = trace_.locations[static_cast<size_t>(bind.location)];
      for (const FileLabel& file : labels_)
        if (file.file == at.file)
          types += (types.empty() ? "" : "    ") + file.label + ":" + std::to_string(at.line);
    }
    return types.empty() ? "" : "  // " + types;
  }

  // ---- arguments ----

  // A value as an argument of this type.
  std::string value_text(ValueId id, const c10::TypePtr& type, bool written) {
    const TypeKind kind = strip_optional(type)->kind();
    if (id == kNoValue)
      return type->kind() == TypeKind::OptionalType ? "std::nullopt" : "at::Tensor()";
    if (trace_.value(id).is_tensor()) {
      writes_ = writes_ || written;
      return written ? "written(" + name(id) + ")" : name(id);
    }
    switch (kind) {
      case TypeKind::TensorType:
        return "at::native::wrapped_scalar_tensor(" + name(id) + ")";
      case TypeKind::IntType:
      case TypeKind::SymIntType:
        return name(id) + ".toLong()";
      case TypeKind::FloatType:
        return name(id) + ".toDouble()";
      case TypeKind::BoolType:
        return name(id) + ".toBool()";
      default:
        return name(id);
    }
  }

  std::string list_text(const ValueList& list, const c10::TypePtr& type) {
    const c10::TypePtr element = strip_optional(type)->castRaw<c10::ListType>()->getElementType();
    std::vector<std::string> items;
    for (ValueId id : list) items.push_back(value_text(id, element, false));
    if (element->kind() == TypeKind::OptionalType)
      return "c10::List<std::optional<at::Tensor>>(std::initializer_list<std::optional<at::Tensor>>"
             "{" +
             joined(items) + "})";
    if (is_tensor_type(element)) {
      const std::string vector = "std::vector<at::Tensor>{" + joined(items) + "}";
      return type->kind() == TypeKind::OptionalType ? "at::TensorList(" + vector + ")" : vector;
    }
    return cpp_array(element, items, std::nullopt);
  }

  std::string arg_text(const Arg& arg, const c10::Argument& argument) {
    const c10::TypePtr& type = full_type(argument);
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (const auto* id = std::get_if<ValueId>(&arg)) return value_text(*id, type, written);
    if (const auto* list = std::get_if<ValueList>(&arg)) return list_text(*list, type);
    return cpp_constant(std::get<c10::IValue>(arg), type, argument.N());
  }

  std::vector<std::string> arg_texts(const Bind& bind) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < bind.args.size(); ++i)
      texts.push_back(arg_text(bind.args[i], bind.op.schema().arguments()[i]));
    return texts;
  }

  // ---- statements ----

  void line(const std::string& code, const std::string& comment = "") {
    body_ += "  " + code + comment + "\n";
  }

  void statement(const Bind& bind) {
    if (bind.op.ns() == "fulgurite" && prim(bind)) return;
    if (!has_static_call(bind.op)) {
      boxed(bind);
      return;
    }
    std::string function = bind.op.base_name();
    if (!bind.op.overload().empty()) function += "_" + bind.op.overload();
    assign(bind, "at::_ops::" + function + "::call(" + joined(arg_texts(bind)) + ")");
  }

  // ATen's headers declare all of its operators but for some leftovers of TorchScript.
  static bool has_static_call(const Op& op) {
    return op.ns() == "aten" && !op.overload().ends_with("_legacy") &&
           op.base_name() != "get_gradients";
  }

  // "at::Tensor t0 = <call>;", with lists and tuples taken apart.
  void assign(const Bind& bind, const std::string& call) {
    bool used = false;
    for_each_result(bind, [&](ValueId) { used = true; });
    if (!used) {
      line(call + ";", remark(bind));
      return;
    }
    if (bind.results.size() == 1) {
      if (const auto* id = std::get_if<ValueId>(&bind.results.front())) {
        line(declaration(*id) + " = " + call + ";", remark(bind));
      } else {
        const std::string all = fresh("list");
        line("const auto " + all + " = " + call + ";", remark(bind));
        unpack(std::get<ValueList>(bind.results.front()), all);
      }
      return;
    }
    const std::string all = fresh("results");
    line("const auto " + all + " = " + call + ";", remark(bind));
    for (size_t i = 0; i < bind.results.size(); ++i) {
      const std::string one = "std::get<" + std::to_string(i) + ">(" + all + ")";
      if (const auto* id = std::get_if<ValueId>(&bind.results[i])) {
        if (*id != kNoValue) line(declaration(*id) + " = " + one + ";");
      } else {
        unpack(std::get<ValueList>(bind.results[i]), one);
      }
    }
  }

  std::string declaration(ValueId id) const {
    return (trace_.value(id).is_tensor() ? "at::Tensor " : "at::Scalar ") + name(id);
  }

  void unpack(const ValueList& list, const std::string& from) {
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i] != kNoValue)
        line(declaration(list[i]) + " = " + from + "[" + std::to_string(i) + "];");
  }

  std::string fresh(const std::string& hint) {
    std::string name;
    do name = hint + std::to_string(next_++);
    while (taken_.contains(name));
    return name;
  }

  // Our own operators in words of ATen, so that the program needs libtorch only.
  bool prim(const Bind& bind) {
    const std::string prim = bind.op.base_name();
    const std::vector<std::string> args = arg_texts(bind);
    if (prim == "copy_") {
      assign(bind, args[1] + ".copy_(" + args[0] + ")");
    } else if (prim == "set_data") {
      assign(bind, args[1] + ".detach()");
    } else if (prim == "data") {
      assign(bind, args[0] + ".variable_data()");
    } else if (prim == "set_grad") {
      line(args[0] + ".mutable_grad() = " + (args[1] == "std::nullopt" ? "at::Tensor()" : args[1]) +
           ";");
    } else if (prim == "set_requires_grad") {
      assign(bind, args[0] + ".requires_grad_(" + args[1] + ")");
    } else if (prim == "expect_sizes") {
      line("TORCH_CHECK(" + args[0] + ".sizes() == " + args[1] +
           ", \"this program was specialised on another shape\");");
    } else if (prim == "expect_values") {
      line("TORCH_CHECK(at::equal(" + args[0] + ", at::tensor(" + args[1] + ", " + args[0] +
           ".options())), \"this program was specialised on other numbers\");");
    } else if (prim.starts_with("expect_")) {
      line("TORCH_CHECK(" + args[0] + " == " + args[1] +
           ", \"this program was specialised on another value\");");
    } else {
      return false;
    }
    return true;
  }

  void boxed(const Bind& bind) {
    const std::string stack = fresh("stack");
    std::vector<std::string> items;
    const auto& formal = bind.op.schema().arguments();
    for (size_t i = 0; i < bind.args.size(); ++i) {
      const auto* list = std::get_if<ValueList>(&bind.args[i]);
      const auto* constant = std::get_if<c10::IValue>(&bind.args[i]);
      std::string text = arg_text(bind.args[i], formal[i]);
      if (text == "std::nullopt") text = "";
      if (list != nullptr && strip_optional(full_type(formal[i])) != full_type(formal[i]))
        text = "std::vector<at::Tensor>" +
               text.substr(text.find('{'), text.rfind('}') - text.find('{') + 1);
      if (constant != nullptr && constant->isList()) text = cpp_boxed_list(*constant);
      if (constant != nullptr && constant->isInt() && !is_tensor_type(full_type(formal[i])))
        text = cpp_number(*constant);
      if (constant != nullptr && constant->isString()) text = "std::string(" + text + ")";
      items.push_back("c10::IValue(" + text + ")");
    }
    line("std::vector<c10::IValue> " + stack + "{" + joined(items) + "};");
    line("c10::Dispatcher::singleton().findSchemaOrThrow(\"" + bind.op.name() + "\", \"" +
             bind.op.overload() + "\").callBoxed(" + stack + ");",
         remark(bind));
    for (size_t i = 0; i < bind.results.size(); ++i) {
      const std::string one = stack + "[" + std::to_string(i) + "]";
      if (const auto* id = std::get_if<ValueId>(&bind.results[i])) {
        if (*id == kNoValue) continue;
        line(declaration(*id) + " = " + one +
             (trace_.value(*id).is_tensor() ? ".toTensor();" : ".toScalar();"));
      } else {
        unpack(std::get<ValueList>(bind.results[i]), one + ".toTensorVector()");
      }
    }
  }

  void results() {
    std::vector<std::string> items;
    auto add = [&](ValueId id) {
      if (id == kNoValue) {
        items.emplace_back("at::Tensor()");
      } else {
        items.push_back(trace_.value(id).is_tensor() ? name(id)
                                                     : "c10::scalar_to_tensor(" + name(id) + ")");
      }
    };
    for (ValueId id : trace_.outputs) add(id);
    for (ValueId id : trace_.saved) add(id);
    line("return {" + joined(items) + "};");
  }

  const Trace& trace_;
  const std::vector<FileLabel> labels_;
  std::vector<std::string>
      names_;  // by ValueId: the value's name, unless C++ has another use for it
  std::unordered_set<std::string> taken_;
  std::string body_;
  int next_ = 0;
  bool writes_ = false;
  bool has_constants_ = false;
};

}  // namespace

std::string print_cpp(const Trace& trace) { return CppPrinter(trace).text(); }

}  // namespace fulgurite::ir
