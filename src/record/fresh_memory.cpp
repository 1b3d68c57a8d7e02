#include "record/fresh_memory.h"

#include <cstring>

namespace fulgurite::record {
namespace {

constexpr size_t kLeast = 4;         // bytes: fewer could be written with the mark by chance
constexpr size_t kMost = 64u << 20;  // filling more would be felt

// The byte of the mark at an offset.
uint8_t byte_of(uint64_t mark, size_t offset) {
  return static_cast<uint8_t>(mark >> (8 * (offset % 8)));
}

size_t size_of(const at::Tensor& t) { return t.storage().nbytes(); }

}  // namespace

void FreshMemory::allocated(const at::Tensor& t) {
  if (!t.defined() || !t.device().is_cpu() || !t.has_storage()) return;
  // A bool other than 0 and 1 could not have been there.
  if (t.scalar_type() == at::kBool || size_of(t) < kLeast || size_of(t) > kMost) return;
  next_ ^= next_ << 13;
  next_ ^= next_ >> 7;
  next_ ^= next_ << 17;
  auto* bytes = static_cast<uint8_t*>(t.storage().mutable_data());
  for (size_t i = 0; i < size_of(t); ++i) bytes[i] = byte_of(next_, i);
  marks_[t.storage().unsafeGetStorageImpl()] = next_;
}

bool FreshMemory::has(const at::Tensor& t) const {
  return t.defined() && t.device().is_cpu() && t.has_storage() &&
         marks_.count(t.storage().unsafeGetStorageImpl()) > 0;
}

bool FreshMemory::take(const at::Tensor& t) {
  auto it = marks_.find(t.storage().unsafeGetStorageImpl());
  const uint64_t mark = it->second;
  marks_.erase(it);
  const auto* bytes = static_cast<const uint8_t*>(t.storage().data());
  for (size_t i = 0; i < size_of(t); ++i)
    if (bytes[i] != byte_of(mark, i)) return false;
  return true;
}

}  // namespace fulgurite::record
