// Memory of empty() and its kin holds whatever was there before. A program that reads it before an
// operator wrote it reads either that, which may be anything, or what C++ code put there without an
// operator (at::tensor({...}), data_ptr()), which a recording would lose. To tell one from the
// other such memory is marked when it is allocated: as long as the mark is there, nobody has
// written.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>

namespace fulgurite::record {

class FreshMemory {
 public:
  // `tensor` was just made by an operator that leaves its memory as it is.
  void allocated(const at::Tensor& tensor);
  bool empty() const { return marks_.empty(); }
  bool has(const at::Tensor& tensor) const;
  // An operator is about to read or write the memory of `tensor`. True if it is known that nothing
  // was written so far; what happens to it afterwards is the recorder's to see.
  bool take(const at::Tensor& tensor);

 private:
  std::unordered_map<const c10::StorageImpl*, uint64_t> marks_;
  uint64_t next_ = 0x9E3779B97F4A7C15ull;
};

}  // namespace fulgurite::record
