#include "ir/storage_text.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

namespace fulgurite::ir {
namespace {

bool read_number(std::string_view text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::vector<ValueId> live_values(const Trace& trace) {
  std::vector<bool> used(trace.values.size(), false);
  auto use = [&](ValueId id) { used[static_cast<size_t>(id)] = true; };
  auto use_all = [&](const auto& items) {
    for (const auto& item : items) for_each_value(item, use);
  };
  for (const Bind& bind : trace.binds) {
    use_all(bind.args);
    for (int32_t r = bind.region; r >= 0; r = trace.regions[static_cast<size_t>(r)].parent) {
      use_all(trace.regions[static_cast<size_t>(r)].args);
      use_all(trace.regions[static_cast<size_t>(r)].results);
    }
  }
  for (ValueId id : trace.outputs)
    if (id != kNoValue) use(id);
  for (ValueId id : trace.saved) use(id);

  std::vector<ValueId> live;
  for (size_t i = 0; i < trace.values.size(); ++i)
    if (used[i] && trace.values[i].kind == ValueKind::Constant)
      live.push_back(static_cast<ValueId>(i));
  live.insert(live.end(), trace.inputs.begin(), trace.inputs.end());
  for (const Bind& bind : trace.binds)
    for_each_result(bind, [&](ValueId id) { live.push_back(id); });
  return live;
}

std::vector<std::string> storage_marks(const Trace& trace) {
  const std::vector<ValueId> live = live_values(trace);
  std::unordered_map<int32_t, int> sharers;
  for (ValueId id : live) ++sharers[trace.value(id).storage];
  std::unordered_map<int32_t, size_t> numbers;
  std::vector<std::string> marks(trace.values.size());
  for (ValueId id : live) {
    const Value& value = trace.value(id);
    if (!value.is_tensor()) continue;
    std::string& mark = marks[static_cast<size_t>(id)];
    if (value.storage < 0 && value.offset == 0) {
      mark = "?";
    } else if (value.storage >= 0 && sharers[value.storage] == 1 && value.offset == 0) {
      mark = "own";
    } else {
      // An unknown storage with an offset is "?+4".
      mark =
          value.storage < 0
              ? "?"
              : "s" + std::to_string(numbers.emplace(value.storage, numbers.size()).first->second);
      if (value.offset != 0) mark += "+" + std::to_string(value.offset);
    }
  }
  return marks;
}

bool apply_storage_marks(std::vector<Value>& values, const std::vector<std::string>& marks) {
  int64_t next = 0;  // above all numbered ones
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i < marks.size(); ++i) {
      std::string_view mark = marks[i];
      if (mark.empty()) continue;
      if (mark == "own") {
        if (pass == 1) values[i].storage = static_cast<int32_t>(next++);
        continue;
      }
      if (pass == 1) continue;
      if (const size_t plus = mark.find('+'); plus != std::string_view::npos) {
        if (!read_number(mark.substr(plus + 1), values[i].offset)) return false;
        mark = mark.substr(0, plus);
      }
      if (mark == "?") continue;
      int64_t number = 0;
      if (!mark.starts_with('s') || !read_number(mark.substr(1), number)) return false;
      values[i].storage = static_cast<int32_t>(number);
      next = std::max(next, number + 1);
    }
  }
  return true;
}

}  // namespace fulgurite::ir
