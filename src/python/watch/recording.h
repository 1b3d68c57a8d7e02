// What one watched run leaves behind while it goes on, and the rules for reads and writes.
//
// Objects fall in three classes: *born* during the run (free to read and write), *known* (alive
// before, and reached through a recorded fact, so that the guards determine which object it is),
// and the rest. An object of the rest in the program's hands means that something was read which no
// guard covers, and the run is refused.
//
// Reads are recorded before the instruction runs, so a fact holds the value before any write of the
// same instruction; a second read of the same thing adds nothing. What the run wrote itself is in
// `written_`, and reading it back needs no fact.
#pragma once

#include <Python.h>

#include <memory_resource>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "born.h"
#include "guard_table.h"
#include "numbers.h"
#include "operations.h"
#include "watcher.h"

struct _PyInterpreterFrame;

namespace fulgurite::python::watching {

class CodeMap;

// Whose result the next event in a frame will show.
enum class Pending : uint8_t { Nothing, Call, Query, Iterator, Attribute, Item };

// A Python frame that is running under watch.
struct Frame {
  _PyInterpreterFrame* frame = nullptr;
  // Of CPython 3.12 (listen_monitoring.cpp): the code, where in it the running instruction begins
  // and is, and whether an exception was raised there.
  const CodeMap* map = nullptr;
  int start = 0, unit = 0;
  bool raised = false;
  Instruction running;       // the last one that began
  PyObject** top = nullptr;  // of the stack before it: top[-1] is what is on top
  Pending pending = Pending::Nothing;
  PyRef callee;                             // of a pending call
  PyRef arguments;                          // of a pending call of an audited query
  PyObject* iterator = nullptr;             // of a pending iteration; the stack owns it
  bool function_call = false;               // the pending call applies an autograd.Function
  std::unique_ptr<NumberStep> number_step;  // of an instruction with a number that varies
  PyObject* keyword_names = nullptr;
  bool user = false;    // outside torch, fulgurite and the standard library
  bool copies = false;  // uses identity only to recognise objects (copy, reprlib, dataclasses)
  bool wrote = false;   // the instruction that runs now has recorded an effect
  bool muted = false;   // inside a function whose whole effect is already recorded
  bool moves = false;   // inside a function that only moves what it is given
  bool around = false;  // muted, and what it calls is not
  PyObject* checkpoint = nullptr;  // the generator of a checkpoint that is about to begin
  bool preserves_random_state = false;
  bool reads_random_state = false;  // inside the function that returns it
  bool hooks = false;               // inside the function that registers a hook on a tensor
  PyRef candidate;               // what a part would be: the function, or the module that is called
  size_t impure = 0, parts = 0;  // Recording's counts when it began
  char saved_trace_lines = 1;
  char saved_trace_opcodes = 0;
};

class Recording {
 public:
  Recording(AddressSet* born, const WatchOptions& options);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void add_root(PyObject* object, std::string label);
  void add_argument(PyObject* object, std::string label, int depth = 0);

  // --- classes of objects
  bool is_born(PyObject* object) const;
  bool is_known(PyObject* object) const { return known_.count(object) != 0; }
  bool is_argument(PyObject* object) const { return arguments_.count(object) != 0; }
  // Whether reading inside needs no fact: born, or covered by the caller, or a value.
  bool needs_no_fact(PyObject* object) const { return is_born(object) || is_argument(object); }
  void know(PyObject* object, int parent);
  void know_inside(PyObject* object, int parent);
  bool has_origin(PyObject* object) const;
  // Refuses the run if `object` came from nowhere.
  void require_origin(PyObject* object, const std::string& whence);

  // --- reads
  PyObject* read_dict(PyObject* dict, PyObject* key);  // returns the current value, borrowed
  void read_type(PyTypeObject* type, PyObject* name);
  void read_type(PyTypeObject* type, const char* name);
  // The special methods that C code looks up; with `arithmetic` the operators as well.
  void read_protocol(PyTypeObject* type, bool arithmetic = false);
  void read_special_methods(PyTypeObject* type, bool operators);
  void read_type_of(PyObject* object);
  // Which classes an object of this one is an instance of.
  void read_mro(PyTypeObject* type);
  // isinstance(object, type), issubclass(object, type)
  void read_instance_check(PyObject* object, PyObject* type);
  void read_abc_token();
  // What a class that derives from this one asks it.
  void read_base_class(PyObject* base);
  // How an object that is found in a class behaves there.
  void read_descriptor(PyObject* found);
  // A key or item whose hash and equality are asked.
  void read_key(PyObject* key);
  void read_cell(PyObject* cell, PyObject* name);
  void read_function(PyObject* function);
  // What the next frame to begin was given, if it is one of this function: borrowed, and forgotten
  // with the next frame or instruction.
  struct Given {
    PyObject* function = nullptr;
    size_t positional = 0;
    PyObject* names = nullptr;     // tuple or null
    PyObject* keywords = nullptr;  // dict or null
  } given;
  // Which defaults became arguments of a frame of it that begins.
  void read_defaults(PyObject* function, const _PyInterpreterFrame* frame);
  void read_attribute(PyObject* object, PyObject* name, bool generic = false);
  void read_inherited(PyTypeObject* start, PyObject* object, PyObject* name);
  void read_list_item(PyObject* list, PyObject* index);
  void read_length(PyObject* container);
  void read_truth(PyObject* object);
  void read_contains(PyObject* container, PyObject* key);
  void read_all(PyObject* container, bool deep = false, int depth = 0);
  void read_order(PyObject* ordered_dict);
  void read_items_of_set(PyObject* set);
  bool read_object_inside(PyObject* object, int depth);
  void read_behind(PyObject* view_or_iterator, int depth);
  void read_weak_reference(PyObject* reference);
  void read_context_variable(PyObject* variable);
  // Of an lru_cache; false if it has no result for the key yet.
  bool read_lru_cache(PyObject* object, PyObject* key);
  void read_call_result(PyObject* callee, PyObject* arguments, PyObject* result);
  void read_thread_local(PyObject* object, PyObject* name);
  // Somebody who is not watched is about to change it; the net has to notice.
  void expect_unseen_change(PyObject* object);
  PyObject* instance_dict(PyObject* object);  // borrowed or null

  // --- places whose content differs from call to call (follow.cpp)
  bool is_followed(PyObject* object) const { return slot_of_.count(object) != 0; }
  bool follows_any() const { return !slot_of_.empty(); }
  // The program uses which object this is: then it has to be this one again. Only followed objects
  // need it; those in containers too.
  void pin(PyObject* object, int depth = 0);
  bool is_hinted(const std::string& place) const { return places_ && places_->count(place); }

  // --- writes; recorded before they happen
  void write_attribute(PyObject* object, PyObject* name, PyObject* value, bool generic = false);
  void write_item(PyObject* container, PyObject* key, PyObject* value);
  void write_global(PyObject* globals, PyObject* name, PyObject* value);
  void write_cell(PyObject* cell, PyObject* name, PyObject* value);
  void write_context_variable(PyObject* variable);
  void mutate(PyObject* container, const std::string& how, PyObject* arguments);
  // A list grows at its end, whatever is in it.
  void append(PyObject* list, PyObject* arguments);
  void mark_written(PyObject* container, PyObject* key);
  void mark_all_written(PyObject* container);
  bool was_written(PyObject* container, PyObject* key) const;
  void effect(EffectKind kind, PyObject* holder, PyObject* key, PyObject* value, std::string text);

  void refuse(const std::string& what);
  void stop_if_too_long();
  size_t effect_count() const { return effects_.size(); }
  void note_gradients_asked_for() { asked_for_gradients_ = true; }
  void tensor_grad_read(PyObject* tensor);
  void grad_access(PyObject* tensor);  // before `.grad` is read or set
  void alias(PyObject* tensor);        // before `.data` is read, and the like
  // Whether storing `value` where `current` is leaves everything as it was.
  bool is_no_change(PyObject* current, PyObject* value) const;
  // For an item of a dict; then it is recorded what is there.
  bool stores_the_same(PyObject* dict, PyObject* key, PyObject* value);

  // --- parts that could be compiled on their own
  void begin_part(Frame& frame);
  void end_part(Frame& frame, bool returned);
  // --- numbers that vary
  NumberWatch numbers;
  // After an instruction: what it read is followed from the stack on, or fixed.
  void follow_number_reads(Frame& frame);

  // --- custom autograd.Functions
  FunctionWatch functions;

  // --- frames
  std::vector<Frame> frames;
  size_t opcodes = 0;
  bool over = false;  // nothing more is recorded: too large, or too many refusals

  // Ends the recording; called with no watch active.
  void finish(Observation& out);
  const std::string& path(PyObject* object) const;

 private:
  struct Key {
    int kind;
    PyObject *holder, *key;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const {
      return reinterpret_cast<size_t>(k.holder) * 0x9E3779B97F4A7C15ull ^
             reinterpret_cast<size_t>(k.key) * 0xC2B2AE3D27D4EB4Full ^ k.kind;
    }
  };

  bool has_fact(FactKind kind, PyObject* holder, PyObject* key) {
    auto it = index_.find({static_cast<int>(kind), holder, key});
    if (it == index_.end()) return false;
    note_number_read(it->second, holder, key);
    return true;
  }
  Fact& add_fact(FactKind kind, PyObject* holder, PyObject* dedup_key, PyObject* expected,
                 MatchBy by, PyObject* key = nullptr);
  void follow(Fact& fact, int number);
  bool should_follow(const Fact& fact, PyObject* value) const;
  int new_slot(PyObject* object);
  void follow_items(PyObject* tuple, int tuple_fact);
  void follow_number(Fact& fact, int number);
  void separate_items(PyObject* container, PyObject* items);
  bool was_appended_to(PyObject* list);
  void find_changes(const std::vector<const Fact*>& ended, Observation& out) const;
  void hand_over_slots(Observation& out);
  PyObject* interned(PyObject* text);
  PyObject* canonical(PyObject* key);
  Place here() const;
  uint64_t base_tag(PyObject* dict) const;
  void see_dict(PyObject* dict);
  bool changed_unseen(PyObject* dict) const;
  bool is_explained(const Fact& fact) const;
  bool is_about_unseen_change(const Fact& fact) const;
  std::vector<const Fact*> refuse_unseen_changes();
  void refuse_changed_contexts();
  bool is_undone(const Effect& effect);
  void drop_undone_writes();
  void keep(PyObject* object);
  void reach_argument(PyObject* object, int parent);
  void vary(int fact);
  void note_number_read(int fact, PyObject* holder, PyObject* key);
  void fix_number_reads(size_t from);
  void hand_over_numbers(Observation& out);
  void read_super_attribute(PyObject* super, PyObject* name);
  void read_after(PyTypeObject* type, PyTypeObject* start, PyObject* name);
  void read_tensor_attribute(PyObject* tensor, PyObject* name);
  bool require_audited_attribute(PyObject* object, PyObject* name, PyObject* descriptor);
  bool read_data_descriptor(PyObject* object, PyObject* name, PyObject* descriptor);
  void write_tensor_attribute(PyObject* tensor, PyObject* name, PyObject* value);

  AddressSet* born_;
  uint64_t start_tag_;
  Facts facts_;
  std::pmr::monotonic_buffer_resource memory_{1 << 15};  // of what goes with the recording
  std::pmr::unordered_map<Key, int, KeyHash> index_{&memory_};
  std::unordered_map<PyObject*, int> known_;  // owned; value: parent as in Fact
  std::unordered_map<PyObject*, uint64_t>
      not_born_;  // dicts materialised for older objects: tag then
  std::unordered_set<PyObject*> arguments_;
  std::pmr::unordered_set<PyObject*> dicts_{
      &memory_};  // every older dict that was read; kept by facts or known_
  std::unordered_set<Key, KeyHash> written_;
  std::unordered_set<PyObject*> partly_written_;  // containers with some write
  std::unordered_set<PyObject*> all_written_;
  std::unordered_set<PyObject*> rewritten_;       // dicts in which an item got an equal value
  std::unordered_set<PyObject*> changed_unseen_;  // what has no tag that would tell; kept
  std::unordered_set<PyTypeObject*> protocols_, operators_;
  std::vector<PyRef> kept_;
  mutable std::unordered_map<PyObject*, std::string> paths_;  // of known objects
  struct ContextWrite {
    PyRef before;  // the value when the call first set the variable; null: none
    Place place;
  };
  std::unordered_map<PyObject*, ContextWrite> contexts_;
  PyRef canonical_keys_;
  std::vector<std::string> roots_;
  std::vector<Effect> effects_;
  std::vector<Refusal> refusals_;
  std::unordered_set<std::string> refusal_texts_;
  std::unordered_set<PyObject*> grads_read_;
  bool asked_for_gradients_ = false;
  void (*on_grad_access_)(PyObject* tensor, void* context) = nullptr;
  void (*on_requires_grad_)(PyObject* tensor, void* context) = nullptr;
  void (*on_alias_)(PyObject* tensor, void* context) = nullptr;
  void* grad_context_ = nullptr;
  const std::unordered_set<std::string>* places_ = nullptr;
  size_t impure_ = 0;  // refusals, and effects that cannot be replayed
  std::vector<PyRef> pure_parts_;
  bool follows_all_ = false;  // items of the container that is read are followed
  std::vector<PyRef> slot_objects_;
  std::unordered_map<PyObject*, int> slot_of_;
  std::vector<PyRef> pinned_;               // by slot
  std::unordered_set<PyObject*> appended_;  // lists that grew without having been read
  std::vector<std::string> wanted_places_;
  std::unordered_map<PyObject*, int> reached_arguments_;  // tensors; value: parent as in Fact
  const std::unordered_set<std::string>* varying_ = nullptr;
  std::vector<int> number_facts_;  // those with a node
  std::unordered_map<int, std::vector<int>>
      tuple_nodes_;                // of followed tuples: one per item, or -1
  std::vector<int> number_reads_;  // facts that this instruction read
};

// Names that are looked up often, interned once.
struct Names {
  PyObject *dict, *class_, *getattr, *getattribute, *setattr, *delattr, *call, *getitem, *setitem,
      *delitem, *iter, *next, *bool_, *len, *contains, *enter, *exit, *missing, *init, *new_, *grad,
      *instancecheck, *subclasscheck, *get, *set, *delete_, *hash, *eq, *build_class,
      *class_getitem, *format, *spec;
};
const Names& names();

// Whether a file belongs to torch, fulgurite or the standard library. The roots are found once.
void load_library_roots();
bool is_library_file(std::string_view file);

}  // namespace fulgurite::python::watching
