// Every operator of ATen that the dispatcher knows, called with made-up arguments in several ways:
// each call must print and read back as the identical trace.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/jit_type.h>
#include <gtest/gtest.h>

#include <optional>

#include "ir/schema_args.h"
#include "traces.h"

namespace fulgurite::ir {
namespace {

using c10::TypeKind;
using testing::f32;
using testing::named;

enum class Way { Gradients, Numbers, NoGradients, Scalars, NoOptionals, Defaults };

class ArgumentMaker {
 public:
  ArgumentMaker(TraceBuilder& builder, Way way) : builder_(builder), way_(way) {}

  // Nothing for types that no trace holds.
  std::optional<Arg> make(const c10::Argument& argument) {
    const c10::TypePtr& full = full_type(argument);
    if (way_ == Way::Defaults && argument.default_value())
      return normalized(Arg(*argument.default_value()), argument);
    if (way_ == Way::NoOptionals && full->kind() == TypeKind::OptionalType)
      return is_tensor_type(full) ? Arg(kNoValue) : Arg(c10::IValue());
    const c10::TypePtr type = strip_optional(full);
    if (type->kind() == TypeKind::TensorType) {
      const bool is_written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
      if (way_ == Way::Numbers && !is_first_ && !is_written) return Arg(c10::IValue(2));
      return tensor();
    }
    if (const auto* list = type->castRaw<c10::ListType>())
      return list_of(list->getElementType(), argument.N().value_or(2));
    return scalar(type->kind());
  }

 private:
  ValueId tensor() {
    is_first_ = false;
    const TensorType type = way_ == Way::Scalars ? f32({}) : f32({2, 3}, way_ != Way::NoGradients);
    return builder_.add_input(named("x", type));
  }

  std::optional<Arg> list_of(const c10::TypePtr& element, int32_t length) {
    switch (strip_optional(element)->kind()) {
      case TypeKind::TensorType: {
        const bool with_none =
            element->kind() == TypeKind::OptionalType && way_ == Way::NoOptionals;
        return Arg(ValueList{with_none ? kNoValue : tensor(), tensor()});
      }
      case TypeKind::IntType:
      case TypeKind::SymIntType:
        return Arg(c10::IValue(std::vector<int64_t>(static_cast<size_t>(length), 1)));
      case TypeKind::FloatType:
        return Arg(c10::IValue(std::vector<double>{1.5}));
      case TypeKind::BoolType: {
        c10::List<bool> flags;
        for (int32_t i = 0; i < length; ++i) flags.push_back(i % 2 == 0);
        return Arg(c10::IValue(flags));
      }
      case TypeKind::NumberType: {
        c10::impl::GenericList numbers(c10::NumberType::get());
        numbers.push_back(2.5);
        return Arg(c10::IValue(numbers));
      }
      default:
        return std::nullopt;
    }
  }

  std::optional<Arg> scalar(TypeKind kind) const {
    switch (kind) {
      case TypeKind::NumberType:
        return Arg(way_ == Way::Numbers ? c10::IValue(3) : c10::IValue(2.5));
      case TypeKind::IntType:
      case TypeKind::SymIntType:
        return Arg(c10::IValue(1));
      case TypeKind::FloatType:
        return Arg(c10::IValue(0.5));
      case TypeKind::BoolType:
        return Arg(c10::IValue(true));
      case TypeKind::StringType:
        return Arg(c10::IValue("mean"));
      case TypeKind::ScalarTypeType:
        return Arg(c10::IValue(at::kDouble));
      case TypeKind::LayoutType:
        return Arg(c10::IValue(at::kStrided));
      case TypeKind::MemoryFormatType:
        return Arg(c10::IValue(at::MemoryFormat::Contiguous));
      case TypeKind::DeviceObjType:
        return Arg(c10::IValue(c10::Device("cpu")));
      case TypeKind::GeneratorType:
        return Arg(c10::IValue(at::detail::getDefaultCPUGenerator()));
      default:
        return std::nullopt;
    }
  }

  TraceBuilder& builder_;
  Way way_;
  bool is_first_ = true;
};

// Nothing if the operator takes something that no trace holds.
TracePtr call_of(const Op& op, Way way) {
  TraceBuilder b("f", "record");
  ArgumentMaker maker(b, way);
  Bind bind{op, {}, {}};
  for (const c10::Argument& argument : op.schema().arguments()) {
    auto arg = maker.make(argument);
    if (!arg) return nullptr;
    bind.args.push_back(*arg);
  }
  for (const c10::Argument& result : op.schema().returns()) {
    const c10::TypePtr& type = full_type(result);
    switch (strip_optional(type)->kind()) {
      case TypeKind::TensorType:
        bind.results.emplace_back(b.add_value(named("", f32({2}))));
        break;
      case TypeKind::NumberType:
      case TypeKind::IntType:
      case TypeKind::SymIntType:
        bind.results.emplace_back(b.add_value(named("", ScalarKind::Int)));
        break;
      case TypeKind::BoolType:
        bind.results.emplace_back(b.add_value(named("", ScalarKind::Bool)));
        break;
      default:
        bind.results.emplace_back(kNoValue);
        if (is_tensor_list_type(type))
          bind.results.back() = ValueList{b.add_value(named("", f32({2}))), kNoValue};
    }
  }
  b.add_bind(std::move(bind));
  return b.finish();
}

TEST(AllOperators, PrintAndReadBackWhateverTheyAreGiven) {
  int calls = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = Op::find(name.name, name.overload_name);
    if (!op || op->ns() != "aten") continue;
    for (Way way : {Way::Gradients, Way::Numbers, Way::NoGradients, Way::Scalars, Way::NoOptionals,
                    Way::Defaults}) {
      const TracePtr trace = call_of(*op, way);
      if (!trace) continue;
      ++calls;
      EXPECT_EQ(testing::round_trip_difference(*trace), "");
      EXPECT_FALSE(print_cpp(*trace).empty());
    }
  }
  EXPECT_GT(calls, 10000);
}

}  // namespace
}  // namespace fulgurite::ir
