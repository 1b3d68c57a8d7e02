#include "exec/registry.h"

#include <algorithm>

namespace fulgurite::exec {
namespace {

struct Lists {
  std::mutex mutex;
  ExecutorList all, defaults, always;
};
Lists& lists() {
  static auto* l = new Lists();
  return *l;
}

bool contains(const ExecutorList& list, const Executor& e) {
  return std::any_of(list.begin(), list.end(), [&](const ExecutorPtr& x) { return x.get() == &e; });
}

void remove(ExecutorList& list, const Executor& e) {
  std::erase_if(list, [&](const ExecutorPtr& x) { return x.get() == &e; });
}

}  // namespace

void register_executor(ExecutorPtr executor) {
  if (executor->takes_everything()) return;
  {
    Lists& l = lists();
    const std::lock_guard lock(l.mutex);
    std::erase_if(l.all, [&](const ExecutorPtr& x) { return x->name() == executor->name(); });
    l.all.push_back(executor);
  }
  executor->set_active(true);
  executor->changed();
}

void deregister_executor(const std::string& name) {
  const ExecutorPtr executor = find_executor(name);
  if (executor == nullptr)
    throw UserError("FG-401", "there is no executor '" + name + "' to deregister");
  if (executor->takes_everything()) throw UserError("FG-401", "the executor aten is always there");
  {
    Lists& l = lists();
    const std::lock_guard lock(l.mutex);
    for (ExecutorList* list : {&l.all, &l.defaults, &l.always}) remove(*list, *executor);
  }
  executor->set_active(false);
  executor->changed();
}

ExecutorPtr find_executor(const std::string& name) {
  for (const ExecutorPtr& e : all_executors())
    if (e->name() == name) return e;
  return nullptr;
}

ExecutorList all_executors() {
  Lists& l = lists();
  const std::lock_guard lock(l.mutex);
  ExecutorList list = l.all;
  list.push_back(aten());
  return list;
}

ExecutorList default_executors() {
  Lists& l = lists();
  const std::lock_guard lock(l.mutex);
  ExecutorList list = l.defaults;
  list.push_back(aten());
  return list;
}

ExecutorList always_executors() {
  Lists& l = lists();
  const std::lock_guard lock(l.mutex);
  return l.always;
}

void add_default(const ExecutorPtr& executor) {
  if (executor->takes_everything()) return;
  Lists& l = lists();
  const std::lock_guard lock(l.mutex);
  remove(l.defaults, *executor);
  l.defaults.insert(l.defaults.begin(), executor);
}

void add_always(const ExecutorPtr& executor) {
  if (executor->takes_everything()) return;
  Lists& l = lists();
  const std::lock_guard lock(l.mutex);
  remove(l.always, *executor);
  l.always.insert(l.always.begin(), executor);
}

void remove_default(const Executor& executor) {
  Lists& l = lists();
  const std::lock_guard lock(l.mutex);
  remove(l.defaults, executor);
}

void remove_always(const Executor& executor) {
  Lists& l = lists();
  const std::lock_guard lock(l.mutex);
  remove(l.always, executor);
}

ExecutorList completed(ExecutorList list) {
  ExecutorList complete;
  bool has_aten = false;
  for (ExecutorPtr& e : list) {
    if (contains(complete, *e)) continue;
    if (e->takes_everything()) has_aten = true;
    complete.push_back(std::move(e));
  }
  const auto aten_at =
      has_aten ? std::find(complete.begin(), complete.end(), aten()) : complete.end();
  ExecutorList always;
  for (const ExecutorPtr& e : always_executors())
    if (!contains(complete, *e)) always.push_back(e);
  complete.insert(aten_at, always.begin(), always.end());
  if (!has_aten) complete.push_back(aten());
  return complete;
}

}  // namespace fulgurite::exec
