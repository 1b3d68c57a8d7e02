// What the recorder asks of a single tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include "ir/trace.h"

namespace fulgurite::record {

c10::StorageImpl* storage_of(c10::TensorImpl* impl);  // null if it has none
// Identity of the version counter that a tensor shares with its views (and not with its .data).
const void* version_counter_of(c10::TensorImpl* impl);
ir::Value describe(const at::Tensor& t);
// Does the autograd engine run an operator on this thread?
bool in_backward();
// Was it made a leaf that requires grad? (Views that were made without grad mode require grad with
// their base, and have no history of their own.)
bool is_marked_leaf(const at::Tensor& t);
// Has it a node of its own? Asks nothing of autograd, which would make the one of a view anew.
bool has_node(const at::Tensor& t);
bool same_geometry(const ir::Value& v, const c10::TensorImpl* impl);
// Strided, dense, with plain sizes and no Python behind it: what is recorded.
bool is_plain(const at::Tensor& t);

}  // namespace fulgurite::record
