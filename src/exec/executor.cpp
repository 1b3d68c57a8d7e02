#include "exec/executor.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <unordered_set>

namespace fulgurite::exec {
namespace {

std::atomic<uint64_t> all_changes{0};

class Function : public Implementation {
 public:
  explicit Function(std::function<void(std::vector<c10::IValue>&)> f) : function_(std::move(f)) {}
  void run(std::vector<c10::IValue>& stack) const override { function_(stack); }

 private:
  std::function<void(std::vector<c10::IValue>&)> function_;
};

bool is_identifier(const std::string& s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0])) != 0) return false;
  return std::all_of(s.begin(), s.end(), [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  });
}

// Operators stay with the dispatcher as long as the process lives, since traces name them: a name
// is given once.
std::string fresh_namespace(const std::string& name) {
  static std::mutex mutex;
  static auto* taken = new std::unordered_set<std::string>();
  const std::lock_guard lock(mutex);
  if (taken->empty())
    for (const c10::OperatorName& n : c10::Dispatcher::singleton().getAllOpNames())
      taken->insert(n.name.substr(0, n.name.find("::")));
  std::string free = name;
  for (int k = 2; !taken->insert(free).second; ++k) free = name + "_" + std::to_string(k);
  return free;
}

std::string signature(const ir::Op& op) {
  std::ostringstream text;
  text << op.schema();
  return text.str();
}

}  // namespace

ImplementationPtr implementation(std::function<void(std::vector<c10::IValue>&)> function) {
  return std::make_shared<Function>(std::move(function));
}

const ExecutorPtr& aten() {
  static const ExecutorPtr executor(new Executor(Executor::Aten()));
  return executor;
}

Executor::Executor(std::string name, std::string version)
    : name_(std::move(name)), version_(std::move(version)) {
  if (!is_identifier(name_))
    throw UserError("FG-401", "an executor cannot be named '" + name_ +
                                  "': its name is a namespace of operators, letters, digits and "
                                  "underscores");
  if (name_ == "aten")
    throw UserError("FG-401", "an executor cannot be named 'aten': that one is there already");
  namespace_ = fresh_namespace(name_);
}

void Executor::changed() {
  generation_.fetch_add(1, std::memory_order_acq_rel);
  all_changes.fetch_add(1, std::memory_order_acq_rel);
}

uint64_t generation() { return all_changes.load(std::memory_order_acquire); }

uint64_t generation_of(const ExecutorList& list) {
  uint64_t sum = 0;
  for (const ExecutorPtr& e : list) sum += e->generation();
  return sum;
}

void Executor::implement(const ir::Op& op, Offer offer) {
  if (takes_everything())
    throw UserError("FG-405",
                    "the executor aten takes every operator as it is; register an "
                    "implementation in an executor of your own");
  if (offer.as && offer.transform != nullptr)
    throw UserError("FG-405", name_ + " offers both an operator and an execution_transform for " +
                                  op.id() + "; give one of them");
  if (!offer.as && offer.transform == nullptr)
    throw UserError(
        "FG-405", name_ + " offers neither an operator nor an execution_transform for " + op.id());
  std::string why;
  if (offer.as && !can_stand_for(*offer.as, op, &why)) throw UserError("FG-405", why);
  if (offer.transform != nullptr && op.schema().is_mutable())
    throw UserError("FG-405", name_ + " offers an execution_transform for " + op.id() +
                                  ", which writes its arguments; register an operator for it");
  {
    const std::lock_guard lock(mutex_);
    offers_[op] = std::make_shared<const Offer>(std::move(offer));
  }
  changed();
}

std::shared_ptr<const Offer> Executor::offer(const ir::Op& op) const {
  const std::lock_guard lock(mutex_);
  const auto it = offers_.find(op);
  return it == offers_.end() ? nullptr : it->second;
}

std::vector<std::string> Executor::implemented() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& [op, offer] : offers_) ids.push_back(op.id());
  for (const auto& [op, checker] : supported_) ids.push_back(op.id());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

void Executor::fuse_with(Fuse fuse) {
  {
    const std::lock_guard lock(mutex_);
    fuse_ = std::move(fuse);
  }
  changed();
}

void Executor::support(const ir::Op& op, Checker checker) {
  if (op.schema().is_mutable())
    throw UserError("FG-405", name_ + " cannot fuse " + op.id() + ": it writes its arguments");
  {
    const std::lock_guard lock(mutex_);
    supported_[op] = std::make_shared<const Checker>(std::move(checker));
  }
  changed();
}

std::shared_ptr<const Checker> Executor::supports(const ir::Op& op) const {
  const std::lock_guard lock(mutex_);
  const auto it = supported_.find(op);
  return it == supported_.end() ? nullptr : it->second;
}

Fuse Executor::fuse() const {
  const std::lock_guard lock(mutex_);
  return fuse_;
}

bool can_stand_for(const ir::Op& as, const ir::Op& op, std::string* why_not) {
  auto no = [&](const std::string& what) {
    *why_not = as.id() + " cannot stand in the place of " + op.id() + ": " + what + " (" +
               signature(as) + "; " + signature(op) + ")";
    return false;
  };
  const auto& have = as.schema().arguments();
  const auto& want = op.schema().arguments();
  if (have.size() > want.size()) return no("it takes more arguments");
  for (size_t i = 0; i < have.size(); ++i) {
    // Numbers, where a tensor is wanted, are passed as such.
    c10::TypePtr type = want[i].type();
    // None, where it takes none, is declined when it comes (exec/offers.h).
    if (have[i].type()->kind() != c10::TypeKind::OptionalType)
      if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    const bool number_for_tensor = type->kind() == c10::TypeKind::NumberType &&
                                   have[i].type()->kind() == c10::TypeKind::TensorType;
    if (!type->isSubtypeOf(*have[i].type()) && !number_for_tensor)
      return no("argument " + std::to_string(i) + " is a " + have[i].type()->str() + ", not a " +
                type->str());
    const auto* writes = have[i].alias_info();
    const auto* may = want[i].alias_info();
    if (writes != nullptr && writes->isWrite() && (may == nullptr || !may->isWrite()))
      return no("it writes argument " + std::to_string(i));
  }
  for (size_t i = have.size(); i < want.size(); ++i)
    if (!want[i].default_value()) return no("it takes no " + want[i].name());
  const auto& gives = as.schema().returns();
  const auto& wanted = op.schema().returns();
  if (gives.size() != wanted.size())
    return no("it has " + std::to_string(gives.size()) + " results, not " +
              std::to_string(wanted.size()));
  for (size_t i = 0; i < gives.size(); ++i)
    if (*gives[i].type() != *wanted[i].type())
      return no("result " + std::to_string(i) + " is a " + gives[i].type()->str() + ", not a " +
                wanted[i].type()->str());
  return true;
}

}  // namespace fulgurite::exec
