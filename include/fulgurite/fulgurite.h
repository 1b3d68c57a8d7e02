// fulgurite for C++: functions on tensors, compiled.
//
//     #include <ATen/ATen.h>
//     #include <fulgurite/fulgurite.h>
//
//     auto f = fulgurite::jit([](const at::Tensor& x, const at::Tensor& w) {
//       return at::gelu(at::matmul(x, w)).sum();
//     });
//     at::Tensor loss = f(x, w);   // the first call is recorded while it runs
//     loss.backward();
//     f(x, w);                     // later calls are served by the compiled program
//     std::cout << fulgurite::last_backward_traces(f).back();
//
// What may be compiled
//   A callable on any number of `const at::Tensor&` and `const std::vector<at::Tensor>&`. It
//   returns a Tensor, a std::vector<at::Tensor>, a std::tuple or std::pair of these, or nothing
//   (then it writes into its arguments). An undefined tensor is allowed wherever a tensor is.
//
// What a compiled call means
//   Exactly what the function means: values, strides, aliasing, in-place effects, version counters,
//   gradients, the random stream, exceptions. A program is used again only under guards: dtype,
//   device, sizes, strides and requires_grad of every argument, which of them share memory, grad
//   mode, inference mode, autocast, default dtype, and what the function read out of tensors
//   (`item()`, `nonzero()`). What cannot be kept is run as it stands, and counted with its reason:
//   see `fallbacks`.
//
// What the function must keep to
//   A recorder sees operators, and C++ cannot be watched beyond them. So
//   - tensors come in as arguments: a call that uses a captured or global tensor is not compiled
//   (FG-205);
//   - anything else that is captured, or global, or read from outside is taken as it was in the
//   recorded
//     call: do not let the function depend on what changes. The function object is const for that
//     reason;
//   - memory is written by operators only. at::tensor({...}) and data_ptr() are not operators: a
//   call that
//     fills fresh memory so is not compiled (FG-211). at::full, at::arange and at::scalar_tensor
//     are fine.
//
// Calls may come from several threads at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace fulgurite {

namespace ir {
struct Trace;
}

struct Options {
  std::string name =
      {};  // of the function in traces; "" makes one from the place of the `jit` call
  bool fullgraph = false;        // throw CompileError where a call would fall back
  bool caching = true;           // false: record every call
  bool reinplace = true;         // turn values back into buffers where nobody can tell
  bool check_results = false;    // compare each result of a program with its declared type (FG-902)
  std::size_t max_entries = 64;  // how many specialisations are kept
  // Of which, behind one set of guards, how many that only data tell apart.
  std::size_t max_branches = 64;
  // Who runs operators, in order, by name (fulgurite/extend.h); empty: the default ones. An unknown
  // name is an std::invalid_argument.
  std::vector<std::string> executors = {};
};

// Thrown under Options::fullgraph. `code` is stable; docs/errors.md has a section for each.
class CompileError : public std::runtime_error {
 public:
  CompileError(std::string code, const std::string& reason)
      : std::runtime_error(code + ": " + reason), code_(std::move(code)) {}
  const std::string& code() const { return code_; }

 private:
  std::string code_;
};

// One stage of a program: immutable, printable.
class Trace {
 public:
  Trace(std::shared_ptr<const ir::Trace> trace, std::string stage, double milliseconds)
      : trace_(std::move(trace)), stage_(std::move(stage)), milliseconds_(milliseconds) {}

  const std::string& stage() const { return stage_; }    // "recorded", "functionalize", ...
  double milliseconds() const { return milliseconds_; }  // that the pass took
  std::size_t size() const;                              // how many operators
  std::vector<std::string> ops() const;                  // "aten.add.Tensor", ...
  // Python that runs. depth: how many levels of composite operators are opened, less one; 0 opens
  // all.
  std::string python(int depth = 1) const;
  std::string cpp() const;  // a C++ function against ATen

 private:
  std::shared_ptr<const ir::Trace> trace_;
  std::string stage_;
  double milliseconds_;
};

std::ostream& operator<<(std::ostream& out, const Trace& trace);

// Why calls ran as they stand, and how many.
struct Fallback {
  std::string code;  // "FG-205"
  std::string reason;
  std::uint64_t count = 0;
};

namespace detail {

// The arguments of one call, flat. `layout` has, per argument, -1 for a tensor or the length of a
// vector.
struct Arguments {
  c10::SmallVector<const at::Tensor*, 8> tensors;
  c10::SmallVector<std::int64_t, 8> layout;

  void add(const at::Tensor& t) {
    tensors.push_back(&t);
    layout.push_back(-1);
  }
  void add(const std::vector<at::Tensor>& list) {
    for (const at::Tensor& t : list) tensors.push_back(&t);
    layout.push_back(static_cast<std::int64_t>(list.size()));
  }
};

// The result of one call, flat; `lengths` are those of the vectors in it, in order.
struct Results {
  std::vector<at::Tensor> tensors;
  std::vector<std::int64_t> lengths;
};

// Runs the function itself on the arguments that `context` knows.
using Body = void (*)(void* context, Results& results);

template <class T>
inline constexpr bool is_argument =
    std::is_same_v<T, at::Tensor> || std::is_same_v<T, std::vector<at::Tensor>>;

// How a result is taken apart and put together.
template <class R>
struct Shape {
  static constexpr bool supported = false;
};
template <>
struct Shape<at::Tensor> {
  static constexpr bool supported = true;
  static void flatten(const at::Tensor& t, Results& out) { out.tensors.push_back(t); }
  static at::Tensor build(Results& from, std::size_t& next, std::size_t&) {
    return std::move(from.tensors[next++]);
  }
};
template <>
struct Shape<std::vector<at::Tensor>> {
  static constexpr bool supported = true;
  static void flatten(const std::vector<at::Tensor>& list, Results& out) {
    out.tensors.insert(out.tensors.end(), list.begin(), list.end());
    out.lengths.push_back(static_cast<std::int64_t>(list.size()));
  }
  static std::vector<at::Tensor> build(Results& from, std::size_t& next, std::size_t& next_length) {
    std::vector<at::Tensor> list;
    list.reserve(static_cast<std::size_t>(from.lengths[next_length]));
    for (std::int64_t i = from.lengths[next_length++]; i > 0; --i)
      list.push_back(std::move(from.tensors[next++]));
    return list;
  }
};
template <class Tuple, class... Ts>
struct TupleShape {
  static constexpr bool supported = (Shape<std::remove_cvref_t<Ts>>::supported && ...);
  static void flatten(const Tuple& t, Results& out) {
    std::apply(
        [&](const auto&... e) { (Shape<std::remove_cvref_t<decltype(e)>>::flatten(e, out), ...); },
        t);
  }
  static std::tuple<std::remove_cvref_t<Ts>...> build(Results& from, std::size_t& next,
                                                      std::size_t& next_length) {
    // Braces, because they are evaluated from left to right.
    return std::tuple<std::remove_cvref_t<Ts>...>{
        Shape<std::remove_cvref_t<Ts>>::build(from, next, next_length)...};
  }
};
template <class... Ts>
struct Shape<std::tuple<Ts...>> : TupleShape<std::tuple<Ts...>, Ts...> {};
template <class A, class B>
struct Shape<std::pair<A, B>> : TupleShape<std::pair<A, B>, A, B> {
  static std::pair<std::remove_cvref_t<A>, std::remove_cvref_t<B>> build(Results& from,
                                                                         std::size_t& next,
                                                                         std::size_t& next_length) {
    auto first = Shape<std::remove_cvref_t<A>>::build(from, next, next_length);
    return {std::move(first), Shape<std::remove_cvref_t<B>>::build(from, next, next_length)};
  }
};

}  // namespace detail

// What every jitted function is, whatever its signature: its compiled programs and counters. Copies
// share them.
class JitFunction {
 public:
  JitFunction(Options options, const std::source_location& where);

  struct State;
  State& state() const { return *state_; }

 protected:
  void call(const detail::Arguments& arguments, detail::Body body, void* context,
            detail::Results& results) const;

 private:
  std::shared_ptr<State> state_;
};

// What `jit` returns: call it like the function.
template <class F>
class Jitted : public JitFunction {
 public:
  Jitted(F function, Options options, const std::source_location& where)
      : JitFunction(std::move(options), where), function_(std::move(function)) {}

  template <class... Args>
  auto operator()(const Args&... args) const {
    static_assert((detail::is_argument<Args> && ...),
                  "arguments are at::Tensor or std::vector<at::Tensor>");
    using R = std::remove_cvref_t<std::invoke_result_t<const F&, const Args&...>>;
    static_assert(std::is_void_v<R> || detail::Shape<R>::supported,
                  "the function returns at::Tensor, std::vector<at::Tensor>, a tuple or pair of "
                  "these, or void");
    detail::Arguments flat;
    (flat.add(args), ...);
    auto body = [&](detail::Results& out) {
      if constexpr (std::is_void_v<R>) {
        std::invoke(function_, args...);
      } else {
        detail::Shape<R>::flatten(std::invoke(function_, args...), out);
      }
    };
    detail::Results results;
    call(
        flat,
        [](void* context, detail::Results& out) { (*static_cast<decltype(body)*>(context))(out); },
        &body, results);
    if constexpr (!std::is_void_v<R>) {
      std::size_t next = 0, next_length = 0;
      return detail::Shape<R>::build(results, next, next_length);
    }
  }

 private:
  F function_;
};

template <class F>
Jitted<std::decay_t<F>> jit(F&& function, Options options = {},
                            const std::source_location& where = std::source_location::current()) {
  return {std::forward<F>(function), std::move(options), where};
}

// The stages of the program used last, from "recorded" to what runs (back()). Throws
// std::runtime_error (FG-014) with the reason if nothing is compiled.
std::vector<Trace> last_traces(const JitFunction& f);
// The same for its backward; empty if it has no gradient.
std::vector<Trace> last_backward_traces(const JitFunction& f);
// The guards of the program used last, one a line.
std::string last_prologue(const JitFunction& f);

std::uint64_t cache_hits(const JitFunction& f);    // calls served by a compiled program
std::uint64_t cache_misses(const JitFunction& f);  // calls that were recorded, or ran as they stand
std::vector<Fallback> fallbacks(const JitFunction& f);
// For each recording after the first: which guard of the program used last did not hold.
std::vector<std::string> recompiles(const JitFunction& f);
// All of the above in words.
std::string explain(const JitFunction& f);

}  // namespace fulgurite
