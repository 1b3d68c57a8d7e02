#include "ops/cards.h"

#include <mutex>
#include <unordered_map>

#include "ir/errors.h"

namespace fulgurite::ops {
namespace {

const std::vector<Card>& cards() {
  static const std::vector<Card> list = {
      // ---- numbers that are a function of metadata ----
      {"aten::_fused_sdp_choice", kReadsMetadata},
      {"aten::size", kReadsMetadata},
      {"aten::sym_size", kReadsMetadata},
      {"aten::stride", kReadsMetadata},
      {"aten::sym_stride", kReadsMetadata},
      {"aten::sym_numel", kReadsMetadata},
      {"aten::sym_storage_offset", kReadsMetadata},
      {"aten::numel", kReadsMetadata},
      {"aten::dim", kReadsMetadata},
      {"aten::is_same_size", kReadsMetadata},
      {"aten::is_floating_point", kReadsMetadata},
      {"aten::is_complex", kReadsMetadata},
      {"aten::is_signed", kReadsMetadata},
      {"aten::is_conj", kReadsMetadata},
      {"aten::is_neg", kReadsMetadata},
      {"aten::is_inference", kReadsMetadata},
      {"aten::result_type", kReadsMetadata},
      {"aten::can_cast", kReadsMetadata},
      {"aten::_has_compatible_shallow_copy_type", kReadsMetadata},
      {"aten::_has_same_storage_numel", kReadsMetadata},
      {"aten::_batch_norm_impl_index", kReadsMetadata},
      {"aten::_use_cudnn_ctc_loss", kReadsMetadata},
      {"aten::_use_cudnn_rnn_flatten_weight", kReadsMetadata},
      {"aten::cudnn_is_acceptable", kReadsMetadata},
      {"aten::is_vulkan_available", kReadsMetadata},
      {"aten::_nnpack_available", kReadsMetadata},
      {"aten::qscheme", kReadsMetadata},
      // Numbers for which -1 means "not chosen": bags are recomputed, never read by the program.
      {"aten::_embedding_bag", kReadsMetadata},
      {"aten::mkldnn_rnn_layer", kReadsMetadata},
      // ---- allocation ----
      {"aten::empty", kUninitialised},
      {"aten::empty_like", kUninitialised},
      {"aten::empty_strided", kUninitialised},
      {"aten::empty_permuted", kUninitialised},
      {"aten::new_empty", kUninitialised},
      {"aten::new_empty_strided", kUninitialised},
      {"aten::lift_fresh", kLiftsConstant | kIdentity},
      // ---- views ----
      {"aten::detach", kCutsGradient | kIdentity},
      {"aten::detach_", kCutsGradient | kIdentity},
      {"fulgurite::data", kCutsGradient | kIdentity},
      {"aten::alias", kIdentity},
      {"aten::select", kNone, {}, -1, nullptr, "aten::select_scatter"},
      {"aten::slice", kNone, {}, -1, nullptr, "aten::slice_scatter"},
      {"aten::diagonal", kNone, {}, -1, nullptr, "aten::diagonal_scatter"},
      {"aten::t", kOwnInverse},
      {"aten::transpose", kOwnInverse},
      {"aten::permute", kPermutes},
      {"aten::_conj", kNone, {}, -1, nullptr, nullptr, "aten::conj_physical"},
      {"aten::_neg_view", kNone, {}, -1, nullptr, nullptr, "aten::neg"},
      {"aten::view_as_real", kTakesNoConjugate, {}, -1, nullptr, nullptr, "aten::view_as_complex"},
      {"aten::view_as_complex", kNone, {}, -1, nullptr, nullptr, "aten::view_as_real"},
      {"aten::select_scatter", kKeepsOffset | kAnyContents},
      {"aten::slice_scatter", kKeepsOffset | kAnyContents},
      {"aten::diagonal_scatter", kKeepsOffset | kAnyContents},
      {"fulgurite::strided_scatter", kKeepsOffset | kAnyContents},
      {"aten::_unsafe_view", kSharesMemory},
      {"aten::unsafe_split", kSharesMemory},
      {"aten::unsafe_split_with_sizes", kSharesMemory},
      {"aten::copy_", kCopies},
      // ---- what may raise for other contents or numbers, and what may not ----
      {"aten::_to_copy", kAnyContents},
      {"aten::fill", kAnyContents},
      {"aten::zero", kAnyContents},
      {"aten::mm", kAnyContents},
      {"aten::mv", kAnyContents},
      {"aten::dot", kAnyContents},
      {"aten::bmm", kAnyContents},
      {"aten::addmm", kAnyContents},
      {"aten::addmv", kAnyContents},
      {"aten::baddbmm", kAnyContents},
      {"fulgurite::conform", kAnyContents},
      {"aten::div.Tensor_mode", kChecksIntegers},
      {"aten::fmod", kChecksIntegers},
      {"aten::remainder", kChecksIntegers},
      {"aten::masked_fill.Tensor", kChecksContents},
      {"aten::celu", kChecksNumbers},
      {"aten::softshrink", kChecksNumbers},
      // ---- effects ----
      {"fulgurite::function", kKeepsTensors | kOwnHistory},
      {"fulgurite::leaf", kKeepsTensors | kOwnHistory},
      {"fulgurite::boundary", kKeepsTensors | kOwnHistory},
      {"fulgurite::argument", kKeepsTensors | kOwnHistory},
      {"fulgurite::random_state", kEffect},
      {"fulgurite::draw_again", kKeepsTensors},
      {"fulgurite::end_draw", kKeepsTensors},
      {"fulgurite::keep", kEffect},
      {"fulgurite::expect_int", kEffect | kValueGuard},
      {"fulgurite::expect_float", kEffect | kValueGuard},
      {"fulgurite::expect_bool", kEffect | kValueGuard},
      {"fulgurite::expect_sizes", kEffect | kValueGuard},
      {"fulgurite::expect_values", kEffect | kValueGuard},
      {"aten::_assert_async", kEffect},
      // ---- arithmetic on numbers: may abandon the run, so it stays where it is ----
      {"fulgurite::number_float", kEffect},
      {"fulgurite::number_int", kEffect},
      {"fulgurite::float_of", kEffect},
      {"fulgurite::float_add", kEffect},
      {"fulgurite::float_sub", kEffect},
      {"fulgurite::float_mul", kEffect},
      {"fulgurite::float_div", kEffect},
      {"fulgurite::float_pow", kEffect},
      {"fulgurite::float_neg", kEffect},
      {"fulgurite::float_abs", kEffect},
      {"fulgurite::float_sqrt", kEffect},
      {"fulgurite::float_exp", kEffect},
      {"fulgurite::float_log", kEffect},
      {"fulgurite::float_sin", kEffect},
      {"fulgurite::float_cos", kEffect},
      {"fulgurite::float_floordiv", kEffect},
      {"fulgurite::float_mod", kEffect},
      {"fulgurite::float_fmod", kEffect},
      {"fulgurite::float_min", kEffect},
      {"fulgurite::float_max", kEffect},
      {"fulgurite::int_min", kEffect},
      {"fulgurite::int_max", kEffect},
      {"fulgurite::float_copysign", kEffect},
      {"fulgurite::float_log2", kEffect},
      {"fulgurite::float_log10", kEffect},
      {"fulgurite::float_tanh", kEffect},
      {"fulgurite::float_floor", kEffect},
      {"fulgurite::float_ceil", kEffect},
      {"fulgurite::float_trunc", kEffect},
      {"fulgurite::float_round", kEffect},
      {"fulgurite::float_round_to", kEffect},
      {"fulgurite::float_isnan", kEffect},
      {"fulgurite::float_isinf", kEffect},
      {"fulgurite::float_isfinite", kEffect},
      {"fulgurite::expect_fits", kEffect},
      {"fulgurite::float_lt", kEffect},
      {"fulgurite::float_le", kEffect},
      {"fulgurite::float_eq", kEffect},
      {"fulgurite::int_add", kEffect},
      {"fulgurite::int_sub", kEffect},
      {"fulgurite::int_mul", kEffect},
      {"fulgurite::int_neg", kEffect},
      {"fulgurite::int_pow", kEffect},
      {"fulgurite::int_floordiv", kEffect},
      {"fulgurite::int_mod", kEffect},
      {"fulgurite::int_and", kEffect},
      {"fulgurite::int_or", kEffect},
      {"fulgurite::int_xor", kEffect},
      {"fulgurite::int_lshift", kEffect},
      {"fulgurite::int_rshift", kEffect},
      {"fulgurite::int_abs", kEffect},
      {"fulgurite::int_invert", kEffect},
      {"fulgurite::int_lt", kEffect},
      {"fulgurite::int_le", kEffect},
      {"fulgurite::int_eq", kEffect},
      {"aten::_assert_tensor_metadata", kEffect},
      {"aten::batch_norm", kHandsOnNumbers},
      {"aten::_index_put_impl", kNone, {}, -1, nullptr, nullptr, nullptr, "aten::index_put"},
      {"aten::ctc_loss", kReadsIntegers},
      {"aten::tensor_split.tensor_indices_or_sections", kReadsIntegers},
      {"aten::lstm.data", kReadsIntegers},
      {"aten::gru.data", kReadsIntegers},
      {"aten::rnn_tanh.data", kReadsIntegers},
      {"aten::rnn_relu.data", kReadsIntegers},
      {"aten::quantized_lstm.data", kReadsIntegers},
      {"aten::quantized_gru.data", kReadsIntegers},
      {"aten::_pad_packed_sequence", kReadsIntegers},
      {"aten::linalg_eig", kGradientChecksData},
      {"aten::_native_batch_norm_legit", kNoVersionBump},
      {"aten::_batch_norm_with_update", kNoVersionBump},
      // ---- schemas that hide a write ----
      {"aten::native_batch_norm", kNone, {3, 4}, 5, "aten::_native_batch_norm_legit_functional"},
      {"aten::cudnn_batch_norm", kNone, {3, 4}, 5, nullptr},
      {"aten::miopen_batch_norm", kNone, {3, 4}, 5, nullptr},
      // ---- in-place operators whose functional variant has another name ----
      {"aten::normal_", kNone, {}, -1, "aten::normal_functional"},
      {"aten::index", kShapeByMasks},
      // ---- shapes that depend on data and lack the tag ----
      {"aten::nonzero", kDataDependentShape},
      {"aten::masked_select", kDataDependentShape},
      {"aten::_unique2", kDataDependentShape},
      {"aten::unique_dim", kDataDependentShape},
      {"aten::unique_consecutive", kDataDependentShape},
      {"aten::unique_dim_consecutive", kDataDependentShape},
      {"aten::bincount", kDataDependentShape},
      {"aten::repeat_interleave", kDataDependentShape},
  };
  return list;
}

std::mutex cards_mutex;
std::unordered_map<std::string, const Card*>& cards_by_name() {
  static auto* by_name = [] {
    auto* map = new std::unordered_map<std::string, const Card*>();
    for (const Card& c : cards())
      if (!map->emplace(c.name, &c).second)
        throw InternalError(std::string("two cards for ") + c.name);
    return map;
  }();
  return *by_name;
}

}  // namespace

const Card* card_by_scatter(const std::string& name) {
  for (const Card& c : cards())
    if (c.scatter != nullptr && name == c.scatter) return &c;
  return nullptr;
}

const Card* card_of(const ir::Op& op) {
  static thread_local std::unordered_map<ir::Op, const Card*> known;
  auto [it, is_new] = known.emplace(op, nullptr);
  if (is_new) {
    const std::lock_guard lock(cards_mutex);
    const auto& by_name = cards_by_name();
    auto card = by_name.find(op.name() + "." + op.overload());
    if (card == by_name.end()) card = by_name.find(op.name());
    it->second = card == by_name.end() ? nullptr : card->second;
  }
  return it->second;
}

void add_card(const std::string& name, uint32_t traits) {
  const std::lock_guard lock(cards_mutex);
  // Cards are never freed: `known` points to them.
  auto* kept = new std::string(name);
  cards_by_name()[name] = new Card{kept->c_str(), traits};
}

}  // namespace fulgurite::ops
