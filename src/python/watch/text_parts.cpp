// What C code makes of numbers that vary and fixed texts: "%.3f" % n, "{:.3f}".format(n), str(n),
// joins.
#include "internals.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "call.h"

namespace fulgurite::python::watching {
namespace {

// Collects the pieces of a text (NumberWatch::track_text), in order; false where that is not
// possible.
class Parts {
 public:
  Parts(const NumberWatch& n, std::vector<PyRef>& pieces) : n_(n), pieces_(pieces) {}

  bool literal(std::string_view text) {
    if (text.empty()) return true;
    return push(PyRef::steal(
        PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()))));
  }
  bool number(PyObject* value, const std::string& format) {
    const PyRef spec = PyRef::steal(PyUnicode_FromString(format.c_str()));
    return spec && push(PyRef::steal(PyTuple_Pack(2, value, spec.get())));
  }
  bool text(PyObject* value) {  // with numbers in it or not
    for (PyRef& piece : n_.pieces_of(value)) pieces_.push_back(std::move(piece));
    return true;
  }
  // The result of formatting something that is the same in every call.
  bool fixed(PyObject* value, PyRef (*make)(PyObject* value, PyObject* how), PyObject* how) {
    return !n_.holds(value) && has_fixed_text(value) && push(make(value, how));
  }
  bool percent(PyObject* format, PyObject* values);
  bool braces(PyObject* format, const std::vector<PyObject*>& values, size_t positional,
              PyObject* names);
  bool joined(PyObject* separator, PyObject* texts);

 private:
  bool push(PyRef piece) {
    if (!piece) return PyErr_Clear(), false;
    pieces_.push_back(std::move(piece));
    return true;
  }
  bool field(std::string_view inside, PyObject* value);
  const NumberWatch& n_;
  std::vector<PyRef>& pieces_;
};

PyRef by_percent(PyObject* value, PyObject* how) {
  const PyRef one = PyRef::steal(PyTuple_Pack(1, value));
  return PyRef::steal(one ? PyUnicode_Format(how, one.get()) : nullptr);
}
PyRef by_format(PyObject* value, PyObject* how) {
  return PyRef::steal(PyObject_Format(value, how));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool has(std::string_view text, char c) { return text.find(c) != std::string_view::npos; }

// The format specification that means the same for this number.
std::optional<std::string> specification(std::string_view flags, std::string_view width,
                                         std::string_view precision, char kind, PyObject* number) {
  const bool left = has(flags, '-'), zero = has(flags, '0');
  const std::string sign = has(flags, '+') ? "+" : has(flags, ' ') ? " " : "";
  if (has(flags, '#')) return std::nullopt;
  std::string spec = left && !width.empty() ? "<" : "";
  if (kind == 's' || kind == 'r') {
    if (!precision.empty() || zero || !sign.empty()) return std::nullopt;
    if (!width.empty() && !left) spec = ">";
    return spec.append(width);
  }
  spec += sign;
  if (has("diu", kind)) {
    if (!PyLong_CheckExact(number) || !precision.empty() || (zero && left)) return std::nullopt;
    if (zero) spec += "0";
    return spec.append(width) + "d";
  }
  if (!has("fFeEgG", kind) || zero) return std::nullopt;
  return spec.append(width).append(precision) + kind;
}

bool Parts::percent(PyObject* format, PyObject* values) {
  const std::string f = text_of(format);
  if (PyDict_Check(values)) return false;
  const bool many = PyTuple_CheckExact(values);
  const Py_ssize_t count = many ? PyTuple_GET_SIZE(values) : 1;
  Py_ssize_t next = 0;
  size_t at = 0;
  while (at < f.size()) {
    const size_t begin = std::min(f.find('%', at), f.size());
    if (!literal(std::string_view(f).substr(at, begin - at))) return false;
    if (begin == f.size()) break;
    size_t end = begin + 1;
    auto take = [&](auto accepts) {
      const size_t from = end;
      while (end < f.size() && accepts(f[end])) ++end;
      return std::string_view(f).substr(from, end - from);
    };
    const std::string_view flags = take([](char c) { return has("-+ 0#", c); });
    const std::string_view width = take(is_digit);
    std::string_view precision;
    if (end < f.size() && f[end] == '.') {
      const size_t from = end++;
      take(is_digit);
      precision = std::string_view(f).substr(from, end - from);
    }
    if (end == f.size()) return false;
    const char kind = f[end++];
    at = end;
    if (kind == '%') {
      if (end - begin != 2 || !literal("%")) return false;
      continue;
    }
    if (!has("diufFeEgGsr", kind) || next >= count) return false;
    PyObject* value = many ? PyTuple_GET_ITEM(values, next) : values;
    ++next;
    const std::string chunk = f.substr(begin, end - begin);
    if (n_.find(value) >= 0) {
      const auto spec = specification(flags, width, precision, kind, value);
      if (!spec || !number(value, *spec)) return false;
    } else if (n_.is_text(value)) {
      if (chunk != "%s") return false;
      text(value);
    } else {
      const PyRef how = PyRef::steal(PyUnicode_FromString(chunk.c_str()));
      if (!how || !fixed(value, by_percent, how.get())) return false;
    }
  }
  return next == count;
}

// `inside`: what stands behind the name, "!r:.3f".
bool Parts::field(std::string_view inside, PyObject* value) {
  char conversion = 0;
  if (inside.starts_with("!")) {
    if (inside.size() < 2) return false;
    conversion = inside[1];
    inside.remove_prefix(2);
  }
  if (!inside.empty() && inside[0] != ':') return false;
  const std::string spec(inside.empty() ? inside : inside.substr(1));
  if (n_.find(value) >= 0) {
    if (conversion != 0 && (!spec.empty() || !has("rs", conversion))) return false;
    return number(value, spec);
  }
  if (n_.is_text(value))
    return spec.empty() && has(std::string_view("\0s", 2), conversion) && text(value);
  if (conversion != 0) return false;
  const PyRef how = PyRef::steal(PyUnicode_FromString(spec.c_str()));
  return how && fixed(value, by_format, how.get());
}

bool Parts::braces(PyObject* format, const std::vector<PyObject*>& values, size_t positional,
                   PyObject* names) {
  const std::string f = text_of(format);
  size_t at = 0, next = 0;
  while (at < f.size()) {
    const size_t begin = std::min(f.find_first_of("{}", at), f.size());
    if (!literal(std::string_view(f).substr(at, begin - at))) return false;
    if (begin == f.size()) break;
    if (begin + 1 < f.size() && f[begin + 1] == f[begin]) {
      if (!literal(std::string_view(f).substr(begin, 1))) return false;
      at = begin + 2;
      continue;
    }
    const size_t end = f.find_first_of("{}", begin + 1);
    if (f[begin] == '}' || end == std::string::npos || f[end] == '{') return false;
    const std::string_view field_text = std::string_view(f).substr(begin + 1, end - begin - 1);
    const std::string_view name = field_text.substr(0, field_text.find_first_of("!:"));
    size_t index = values.size();
    if (name.empty()) {
      index = next++;
    } else if (name.size() < 4 && std::all_of(name.begin(), name.end(), is_digit)) {
      index = static_cast<size_t>(std::stoi(std::string(name)));
    } else {
      for (Py_ssize_t k = 0; names != nullptr && k < PyTuple_GET_SIZE(names); ++k)
        if (text_of(PyTuple_GET_ITEM(names, k)) == name)
          index = positional + static_cast<size_t>(k);
      if (index < positional) return false;
    }
    if (index >= values.size() || values[index] == nullptr ||
        !field(field_text.substr(name.size()), values[index]))
      return false;
    at = end + 1;
  }
  return true;
}

bool Parts::joined(PyObject* separator, PyObject* texts) {
  if (!PyList_CheckExact(texts) && !PyTuple_CheckExact(texts)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(texts); ++i) {
    PyObject* one = PySequence_Fast_GET_ITEM(texts, i);
    if (!PyUnicode_CheckExact(one) || (i > 0 && !text(separator)) || !text(one)) return false;
  }
  return true;
}

}  // namespace

bool binary_text(Recording& r, Frame& frame, bool adds, PyObject* left, PyObject* right) {
  NumberWatch& n = r.numbers;
  NumberStep step{NumberStep::Kind::Text, {}};
  n.collect(left, step.nodes);
  n.collect(right, step.nodes);
  Parts parts(n, step.pieces);
  const bool made = adds ? PyUnicode_CheckExact(right) && parts.text(left) && parts.text(right)
                         : !n.is_text(left) && parts.percent(left, right);
  if (!made) return false;
  frame.number_step = std::make_unique<NumberStep>(std::move(step));
  return true;
}

bool Call::text_of_numbers(const std::string& called, const std::vector<int>& nodes) {
  NumberWatch& n = r_.numbers;
  NumberStep step{NumberStep::Kind::Text, {}};
  Parts parts(n, step.pieces);
  const size_t count = a_.size() - explicit_from_;
  PyObject* first = explicit_from_ < a_.size() ? a_[explicit_from_] : nullptr;
  const bool plain = !arguments_.has_keywords();
  bool made = false;
  if (called == "str" || called == "builtins.repr") {
    made = plain && count == 1 && n.find(first) >= 0 && parts.number(first, "");
  } else if (called == "builtins.format") {
    PyObject* spec = count == 2 ? a_[explicit_from_ + 1] : nullptr;
    made = plain && n.find(first) >= 0 && spec != nullptr && PyUnicode_CheckExact(spec) &&
           !n.is_text(spec) && parts.number(first, text_of(spec));
  } else if (called == "str.format" || called == "str.join") {
    PyObject* self = argument(0);
    if (self == nullptr || !PyUnicode_CheckExact(self) || n.is_text(self)) return false;
    if (called == "str.join") {
      made = plain && a_.size() == 2 && parts.joined(self, a_[1]);
    } else if (arguments_.keywords == nullptr) {
      const size_t named =
          arguments_.names ? static_cast<size_t>(PyTuple_GET_SIZE(arguments_.names)) : 0;
      const std::vector<PyObject*> values(a_.begin() + 1, a_.end());
      made = named <= values.size() &&
             parts.braces(self, values, values.size() - named, arguments_.names);
    }
  }
  if (!made) return false;
  step.nodes = nodes;
  frame_.number_step = std::make_unique<NumberStep>(std::move(step));
  return true;
}

}  // namespace fulgurite::python::watching
