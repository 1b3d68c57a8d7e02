// The intermediate representation. Its semantics, which every pass may rely on and must keep:
//
// Values     A value is one tensor (or one Python number read out of a tensor), defined once: as an
//            input, as a constant, or as a result of a bind. It is named by a dense ValueId. Its
//            type (dtype, device, sizes, strides, requires_grad) is exact, not symbolic: it is what
//            the recorded run had, and guards see to it that a later run has the same.
// Binds      A bind is one application of an operator of PyTorch's dispatcher (aten, custom, or our
//            own namespace `fulgurite`, whose few operators are called prims). Binds run in order.
// Aliasing   A *recorded* trace keeps in-place ops and views: there a value is a tensor variable,
// and
//            a mutable operator changes the variables that share its storage. Which values share a
//            storage is a recorded fact (`Value::storage`), never guessed from the operator.
//            A *functional* trace has no mutable operator before `epilogue` (except on a copy made
//            for it and read only afterwards, where an operator has no functional variant): there a
//            value never changes, and whether two values share memory cannot be observed.
// Effects    What the caller can see (write-backs into inputs, outputs that alias inputs) stands at
// the
//            end, from bind `epilogue` on: in-place operators on inputs among them, where nothing
//            can fail any more. The epilogue runs on the caller's own tensors with autograd on, so
//            that histories, views and version counters come out as in eager. Random operators are
//            effects on the generator: passes keep them, and keep their order.
// Grad mode  Every bind carries the GradMode it was recorded under. Results of a bind recorded
//            without it are constants for differentiation.
// Regions    A composite operator (linear, layer_norm, ...) is a region: its own operator,
// arguments
//            and results around the binds that it decomposed to. Regions nest; the binds of a
//            region are contiguous. A region says where binds came from; it does not change their
//            meaning.
// Gradients  `requires_grad` on a value says that the recorded run had it so; autograd connects it
// to
//            the inputs through binds with grad mode on.
//
// A Trace is immutable. TraceBuilder makes one and checks what is added; `with_*` functions of
// passes make new traces. Start reading at `struct Trace`.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ir/op.h"

namespace fulgurite::ir {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;  // an undefined tensor, None, or a result nobody names

using Dims = c10::SmallVector<int64_t, 5>;

struct TensorType {
  at::ScalarType dtype = at::kFloat;
  c10::Device device = c10::Device(c10::kCPU);
  Dims sizes;
  Dims strides;  // in elements
  bool requires_grad = false;

  int64_t numel() const;
  bool is_contiguous() const;
  bool is_dense() const;  // non-overlapping, without gaps: a permutation of a contiguous tensor
  bool operator==(const TensorType& other) const = default;
};

TensorType type_of(const at::Tensor& t);

// The strides that a fresh contiguous tensor of these sizes has.
Dims default_strides(const Dims& sizes);

enum class ScalarKind : uint8_t { Int, Float, Bool, Complex };  // a number read out of a tensor

enum class ValueKind : uint8_t { Input, Constant, Result };

struct Value {
  std::string name;  // a valid Python identifier, unique in the trace
  ValueKind kind = ValueKind::Result;
  std::variant<TensorType, ScalarKind> type;
  int32_t storage = -1;  // values with equal storage shared memory when recorded; -1: unknown
  int64_t offset = 0;    // storage offset in elements
  at::Tensor constant;   // the contents, for ValueKind::Constant

  bool is_tensor() const { return std::holds_alternative<TensorType>(type); }
  const TensorType& tensor() const { return std::get<TensorType>(type); }
};

// One argument, in the order of the schema: a value, a list of values (kNoValue for a None in it),
// or a constant of any IValue kind. A Python number passed where the schema wants a Tensor is a
// constant number ("wrapped number"); the plan and the printer pass it on as one.
using ValueList = c10::SmallVector<ValueId, 4>;
using Arg = std::variant<ValueId, ValueList, c10::IValue>;

// One result, in the order of the schema: a value (or kNoValue), or a list of values.
using Result = std::variant<ValueId, ValueList>;

struct SourceLocation {
  std::string file;
  int32_t line = 0;
  bool operator==(const SourceLocation&) const = default;
};

struct Bind {
  Op op;
  std::vector<Arg> args;
  std::vector<Result> results;
  int32_t location = -1;  // index into Trace::locations, -1: unknown
  int32_t region = -1;    // innermost region, index into Trace::regions, -1: none
  bool grad_mode = true;
};

struct Region {
  Op op;
  std::vector<Arg> args;
  std::vector<Result> results;
  int32_t location = -1;
  int32_t parent = -1;   // always smaller than the region's own index
  std::string module{};  // path of the module whose forward called it, "" if none
};

enum class TraceKind : uint8_t {
  Computation,       // returns its outputs
  AugmentedForward,  // returns (outputs, saved values): what a backward trace needs
  Backward,          // takes saved values, then cotangents; returns one gradient or None per input
  Rule,              // backward of one operator: takes its inputs and results, then cotangents
};

struct Trace {
  TraceKind kind = TraceKind::Computation;
  std::string name;   // of the user's function, as a Python identifier
  std::string stage;  // of the pipeline: "recorded", "functionalize", ...
  bool functional = false;

  std::vector<Value> values;  // by ValueId
  std::vector<ValueId> inputs;
  std::vector<Bind> binds;
  size_t epilogue = 0;  // index of the first bind of the epilogue; binds.size() if there is none
  std::vector<ValueId> outputs;  // flat; kNoValue prints as None
  std::string output_template;   // Python expression of the result with $0, $1, ... for outputs; ""
                                 // : the tuple of outputs

  std::vector<ValueId> saved;  // AugmentedForward: what the backward trace takes first, in order
  size_t num_saved_inputs =
      0;  // Backward: how many of `inputs` are saved values, the rest are cotangents

  std::vector<Region> regions;
  std::vector<SourceLocation> locations;

  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
};

using TracePtr = std::shared_ptr<const Trace>;

// Calls f(ValueId) for every value that the argument (or result) mentions, kNoValue excepted.
template <class ArgOrResult, class F>
void for_each_value(const ArgOrResult& a, F&& f) {
  if (const auto* id = std::get_if<ValueId>(&a)) {
    if (*id != kNoValue) f(*id);
  } else if (const auto* list = std::get_if<ValueList>(&a)) {
    for (ValueId item : *list)
      if (item != kNoValue) f(item);
  }
}

template <class F>
void for_each_arg(const Bind& b, F&& f) {
  for (const Arg& a : b.args) for_each_value(a, f);
}
template <class F>
void for_each_result(const Bind& b, F&& f) {
  for (const Result& r : b.results) for_each_value(r, f);
}

// Throws InternalError, naming the pass (`trace.stage`) and printing the lines around the fault, if
// the trace breaks one of the rules above: a value used before its definition or defined twice, an
// argument that the schema does not admit, a mutable operator in the functional part, a region that
// is not contiguous, an output that does not exist, a name that is not unique.
void verify(const Trace& trace);

}  // namespace fulgurite::ir
