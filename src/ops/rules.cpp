#include "ops/rules.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "ops/prims.h"
#include "ops/traits.h"

namespace fulgurite::rules {
namespace {

struct Entry {
  std::shared_ptr<const Rule> rule;  // nullptr: taken back
  uint64_t changed = 0;
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<ir::Op, Entry> entries;
  std::atomic<uint64_t> generation{0};
  std::atomic<size_t> rules{0};
};

Registry& registry() {
  static auto* r = new Registry();
  return *r;
}

// A rule is immutable once it is in the table: whoever has found it may go on with it.
template <class Change>
void update(const ir::Op& op, Change&& change) {
  const bool writes_back = op == prims::copy_();
  if (ops::is_mutable(op) && !writes_back) {
    const auto functional = ops::functional_variant(op);
    throw RuleError("FG-322",
                    op.id() + " works in place: compiled programs hold its functional form" +
                        (functional ? "; register the rule for " + functional->op.id() : ""));
  }
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  Entry& entry = r.entries[op];
  auto rule = entry.rule ? std::make_shared<Rule>(*entry.rule) : std::make_shared<Rule>();
  change(*rule);
  const bool had = entry.rule != nullptr;
  entry.rule = rule->empty() ? nullptr : std::move(rule);
  if (had != (entry.rule != nullptr)) r.rules += had ? size_t(-1) : size_t(1);
  entry.changed = ++r.generation;
}

size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string nearest(const std::string& id) {
  std::string best;
  size_t best_distance = SIZE_MAX;
  for (const c10::OperatorName& n : c10::Dispatcher::singleton().getAllOpNames()) {
    std::string candidate = n.name;
    if (const size_t colons = candidate.find("::"); colons != std::string::npos)
      candidate.replace(colons, 2, ".");
    if (!n.overload_name.empty()) candidate += "." + n.overload_name;
    const size_t difference =
        candidate.size() > id.size() ? candidate.size() - id.size() : id.size() - candidate.size();
    if (difference > best_distance) continue;
    const size_t d = distance(id, candidate);
    if (d > best_distance || (d == best_distance && candidate >= best)) continue;
    best_distance = d;
    best = candidate;
  }
  return best;
}

}  // namespace

void set_augmented_forward(const ir::Op& op, AugmentedForward forward, std::string name) {
  update(op, [&](Rule& r) {
    r.forward = std::move(forward);
    r.forward_name = std::move(name);
    r.joint = nullptr;
  });
}

void set_backward(const ir::Op& op, Backward backward, std::string name) {
  update(op, [&](Rule& r) {
    r.backward = std::move(backward);
    r.backward_name = std::move(name);
    r.joint = nullptr;
  });
}

void set_joint(const ir::Op& op, Joint joint, std::string name) {
  update(op, [&](Rule& r) {
    r = Rule();
    r.joint = std::move(joint);
    r.joint_name = std::move(name);
  });
}

std::shared_ptr<const Rule> find(const ir::Op& op) {
  if (!any()) return nullptr;
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  const auto it = r.entries.find(op);
  return it == r.entries.end() ? nullptr : it->second.rule;
}

bool any() { return registry().rules.load(std::memory_order_relaxed) > 0; }

uint64_t generation() { return registry().generation.load(std::memory_order_acquire); }

bool changed(const std::vector<ir::Op>& ops, uint64_t since) {
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  return std::any_of(ops.begin(), ops.end(), [&](const ir::Op& op) {
    const auto it = r.entries.find(op);
    return it != r.entries.end() && it->second.changed > since;
  });
}

ir::Op op_by_id(const std::string& id) {
  std::string name = id;
  if (const size_t colons = name.find("::"); colons != std::string::npos)
    name.replace(colons, 2, ".");
  const size_t space = name.find('.');
  if (space != std::string::npos) {
    const std::string rest = name.substr(space + 1);
    const size_t dot = rest.find('.');
    const std::string base = name.substr(0, space) + "::" + rest.substr(0, dot);
    std::string overload = dot == std::string::npos ? "" : rest.substr(dot + 1);
    if (overload == "default") overload.clear();
    if (auto op = ir::Op::find(base, overload)) return *op;
  }
  throw RuleError("FG-320",
                  "there is no operator '" + id + "'; the nearest is '" + nearest(id) + "'");
}

}  // namespace fulgurite::rules
